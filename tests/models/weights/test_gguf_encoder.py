"""BERT-like encoders in GGUF files: equal to the same encoder in a folder; unmodelled parts are rejected."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.encoder.config import EncoderConfig
from tests.models import toy_encoder
from tests.models.toy_encoder import CONFIG, TOKENS

#: tensors of the format, written down apart from what refemu does
NAMES = {
    "embed": "token_embd",
    "position": "position_embd",
    "token_type": "token_types",
    "embed_norm": "token_embd_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "attn_norm": "attn_output_norm",
    "up": "ffn_up",
    "down": "ffn_down",
    "ffn_norm": "layer_output_norm",
}
SETTINGS: dict[str, Any] = {
    "block_count": CONFIG.blocks,
    "context_length": CONFIG.context,
    "embedding_length": CONFIG.width,
    "feed_forward_length": CONFIG.ffn,
    "attention.head_count": CONFIG.heads,
    "attention.layer_norm_epsilon": 1e-12,
    "attention.causal": False,
    "pooling_type": 1,
}


def raw_name(name: str) -> str:
    """`blk.1.q.bias` -> `blk.1.attn_q.bias`."""
    stem, dot, ending = name.rpartition(".") if name.endswith(".bias") else (name, ".", "weight")
    prefix, _, part = stem.rpartition(".")
    return f"{prefix}.{NAMES[part]}.{ending}" if prefix else f"{NAMES[part]}{dot}{ending}"


def write(path: Path, extra: dict[str, np.ndarray] | None = None, **settings: Any) -> Path:
    """The toy encoder; a setting of None is left out, one that begins with tokenizer stands for itself."""
    writer = gguf.GGUFWriter(path, "bert")
    add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
    for key, value in {**SETTINGS, **settings}.items():
        if value is not None:
            add[type(value)](f"bert.{key}", value)
    writer.add_tokenizer_model("bert")
    spelled = [token if token.startswith("[") else token[2:] if token[0] == "#" else f"▁{token}" for token in TOKENS]
    writer.add_token_list(spelled)
    writer.add_token_types([3 if token.startswith("[") else 1 for token in TOKENS])
    for key, number in (("unknown", 1), ("cls", 2), ("seperator", 3)):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", number)
    for name, tensor in toy_encoder.values(CONFIG).items():
        writer.add_tensor(raw_name(name), tensor)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_is_the_encoder_of_the_folder(tmp_path: Path) -> None:
    """The same sizes, weights, ids and hidden states."""
    folder = models.load(toy_encoder.write(tmp_path / "toy", toy_encoder.values(CONFIG)))
    model = models.load(write(tmp_path / "toy.gguf"))

    assert isinstance(model.config, EncoderConfig)
    assert vars(model.config) == {**vars(folder.config), "norm_eps": float(np.float32(1e-12))}
    assert all(np.array_equal(model.tensor(name), folder.tensor(name)) for name in CONFIG.shapes)
    ids = model.tokenizer.sentence("In the thes a x")
    assert ids == folder.tokenizer.sentence("In the thes a x")
    for scheme in ("fp16", "olive-8"):
        found, wanted = (models.encode(each, ids, scheme, calibration=[2, 4, 5, 3]) for each in (model, folder))
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        pytest.param({"attention.causal": True}, (), r"bert\.attention\.causal must be False", id="causal"),
        pytest.param({"pooling_type": 2}, (), r"pooling_type must be 1 \(the mean of the hidden st.*got 2", id="cls"),
        pytest.param(
            {"rope.freq_base": 1e4}, (), r"bert\.rope\.freq_base is not a setting that refemu models", id="rotary"
        ),
        pytest.param({"attention.head_count_kv": 1}, (), r"head_count_kv must be 2 \(keys and values", id="groups"),
        pytest.param({"attention.head_count": 4}, (), r"toy\.gguf: EncoderConfig: ", id="heads"),
        pytest.param({"block_count": 3}, (), r"tensor blk\.2\.attn_q\.weight is missing", id="fewer blocks"),
        pytest.param({"feed_forward_length": 9}, (), r"ffn_up\.weight must have shape \(9, 6\), got \(10", id="shape"),
        pytest.param({}, ("cls.weight",), r"tensor cls\.weight is not part of a BERT-like encoder", id="classifier"),
        pytest.param({}, ("blk.0.attn_qkv.weight",), r"blk\.0\.attn_qkv\.weight is not part of", id="fused"),
    ],
)
def test_what_is_not_modelled_is_rejected(
    settings: dict[str, Any], extra: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "toy.gguf", {name: np.zeros((6, 6), np.float32) for name in extra}, **settings)

    with pytest.raises(Refused, match=message):
        models.load(path)


def test_a_file_that_is_cut_is_rejected(tmp_path: Path) -> None:
    whole = write(tmp_path / "toy.gguf").read_bytes()

    for length in (20, len(whole) // 2, len(whole) - 40):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(Refused, match=r"cut\.gguf: not a readable GGUF file, or cut short"):
            models.load(tmp_path / "cut.gguf")
