"""Sizes of a model and names of its tensors, read from a weight file.

A tensor or setting that a Llama-like decoder as modelled here does not use is refused, never ignored: a bias left out
would give other logits without a word.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reading import reading
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.weights.files import GgufFile, WeightFile, half

GGUF_NAMES = {
    "embed": "token_embd",
    "norm": "output_norm",
    "head": "output",
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}  #: llama.cpp's names
HF_NAMES = {
    "embed": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}  #: Hugging Face's names

_LARGEST = float(np.finfo(np.float32).max)


def gguf_config(file: GgufFile) -> ModelConfig:
    """Sizes from GGUF metadata; rotary pairs are interleaved, as the converter of that format permutes them."""
    kind = file.metadata("general.architecture")
    if kind != "llama":
        raise Refused(f"{file.path}: architecture {kind!r}; Llama-like decoders ('llama') can be run")
    read = Settings(f"{file.path}: llama.", lambda key, default: file.metadata(f"llama.{key}", default))
    heads, width = read.whole("attention.head_count"), read.whole("embedding_length")
    head_dim = read.whole("attention.key_length", width // max(heads, 1))
    read.expect("rope.dimension_count", head_dim, "rotary positions over the whole head")
    read.expect("attention.value_length", head_dim, "values as wide as keys")
    read.expect("rope.scaling.type", "none", "rotary positions without scaling")
    read.expect("expert_count", 0, "no experts")
    return ModelConfig(
        blocks=read.whole("block_count"),
        width=width,
        ffn=read.whole("feed_forward_length"),
        heads=heads,
        kv_heads=read.whole("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab=file.shape("token_embd.weight")[0],
        context=read.whole("context_length"),
        rope_base=read.real("rope.freq_base", 10_000.0),
        rope_interleaved=True,
        rms_eps=read.real("attention.layer_norm_rms_epsilon"),
        tied_head="output.weight" not in file.names,
    )


def hf_config(folder: Path) -> ModelConfig:
    """Sizes from Hugging Face's `config.json`; rotary pairs are half a head apart."""
    where = folder / "config.json"
    settings = read_json(where)
    read = Settings(f"{where}: ", settings.get)
    rope = settings.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise Refused(f"{where}: rope_parameters must be an object, got {type(rope).__name__}")
    rotary = Settings(f"{where}: rope_parameters.", rope.get)
    read.expect("model_type", "llama", "a Llama-like decoder; gpt2, opt and bert are read too")
    for key, wanted in (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False), ("rope_scaling", None)):
        read.expect(key, wanted, "the layers as modelled here")
    if rope.get("rope_type", "default") != "default":
        raise Refused(f"{where}: rotary positions without scaling are needed, got {rope['rope_type']!r}")
    heads, width = read.whole("num_attention_heads"), read.whole("hidden_size")
    return ModelConfig(
        blocks=read.whole("num_hidden_layers"),
        width=width,
        ffn=read.whole("intermediate_size"),
        heads=heads,
        kv_heads=read.whole("num_key_value_heads", heads),
        head_dim=read.whole("head_dim", width // max(heads, 1)),
        vocab=read.whole("vocab_size"),
        context=read.whole("max_position_embeddings"),
        rope_base=rotary.real("rope_theta", read.real("rope_theta", 10_000.0)),
        rope_interleaved=False,
        rms_eps=float32(read.real("rms_norm_eps")),
        tied_head=bool(read.value("tie_word_embeddings", False)),
    )


class Renamed:
    """The weights of a file under canonical names."""

    def __init__(
        self,
        file: WeightFile,
        config: ModelConfig | EncoderConfig,
        raw: Callable[[str], str] | None = None,
        unused: Sequence[str] = (),
    ) -> None:
        """raw: canonical name to the file's; by default that of a decoder. unused: tensors that may be there."""
        self.file = file
        require_blocks(file, config.blocks)
        rename = raw or (raw_name_gguf if isinstance(file, GgufFile) else raw_name_hf)
        self._raw = {name: rename(name) for name in config.shapes}
        require_same(file, {self._raw[name]: shape for name, shape in config.shapes.items()}, config.meaning, unused)

    def __repr__(self) -> str:
        return f"Renamed({self.file!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names in model order."""
        return tuple(self._raw)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a weight."""
        return self.file.shape(self._raw[name])

    def tensor(self, name: str) -> np.ndarray:
        """A weight as float32, decoded anew by every call."""
        return self.file.tensor(self._raw[name])

    def half(self, name: str) -> np.ndarray:
        """A weight rounded once to fp16."""
        return half(self.file, self._raw[name])


def raw_name_gguf(name: str) -> str:
    """`blk.3.q` -> `blk.3.attn_q.weight`."""
    prefix, _, part = name.rpartition(".")
    return f"{prefix}{'.' if prefix else ''}{GGUF_NAMES[part]}.weight"


def raw_name_hf(name: str) -> str:
    """`blk.3.q` -> `model.layers.3.self_attn.q_proj.weight`."""
    prefix, _, part = name.rpartition(".")
    return f"{prefix.replace('blk', 'model.layers')}{'.' if prefix else ''}{HF_NAMES[part]}.weight"


def require_blocks(file: WeightFile, blocks: int) -> None:
    """Refuse more blocks than the file has tensors, before a name is made for each."""
    if blocks > len(file.names):
        raise Refused(f"{file.path}: {blocks} blocks need a tensor each at least, the file has {len(file.names)}")


def require_same(
    file: WeightFile, wanted: Mapping[str, tuple[int, ...]], meaning: str, unused: Sequence[str] = ()
) -> None:
    """Every tensor of `wanted` is in the file in its shape, and there is nothing else but `unused`.

    meaning: what the tensors make up, for the message.
    """
    there = set(file.names)
    for raw, shape in wanted.items():
        if raw not in there:
            raise Refused(f"{file.path}: tensor {raw} is missing")
        if file.shape(raw) != shape:
            raise Refused(f"{file.path}: tensor {raw} must have shape {shape}, got {file.shape(raw)}")
    more = sorted(there - set(wanted) - set(unused))
    if more:
        raise Refused(f"{file.path}: tensor {more[0]} is no part of {meaning} as modelled here")


class Settings:
    """Settings of a file by key; every refusal names file and key."""

    def __init__(self, where: str, get: Any) -> None:
        self._where, self._get = where, get

    def value(self, key: str, default: Any = None) -> Any:
        setting = self._get(key, default)
        if isinstance(setting, str | list | dict) or setting is None:
            raise Refused(f"{self._where}{key} must be a number, got {setting!r}")
        return setting

    def whole(self, key: str, default: int | None = None) -> int:
        setting = self.value(key, default)
        if isinstance(setting, bool) or not (isinstance(setting, int) or float(setting).is_integer()):
            raise Refused(f"{self._where}{key} must be a whole number, got {setting!r}")
        return int(setting)

    def real(self, key: str, default: float | None = None) -> float:
        setting = self.value(key, default)
        if isinstance(setting, bool) or not -_LARGEST <= setting <= _LARGEST:  # NaN is not either
            raise Refused(f"{self._where}{key} must be a number that float32 holds, got {setting!r}")
        return float(setting)

    def expect(self, key: str, wanted: Any, why: str) -> None:
        setting = self._get(key, wanted)
        if setting != wanted:
            raise Refused(f"{self._where}{key} must be {wanted!r} ({why}), got {setting!r}")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; refuses a missing file and anything else in it."""
    try:
        with reading(str(path), "JSON"):
            content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}; the sizes of a safetensors model stand there") from None
    if not isinstance(content, dict):
        raise Refused(f"{path}: a JSON object is needed, got {type(content).__name__}")
    return content


def float32(value: float) -> float:
    """The float32 that a setting stands for."""
    return float(np.float32(value))
