"""What a file says about its model: sizes and names; whatever is not modelled is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.weights.checkpoint import Renamed, gguf_config, hf_config, raw_name_gguf, raw_name_hf
from refemu.models.weights.files import GgufFile, open_weights
from tests.models import toy_files
from tests.models.toy_files import CONFIG


def gguf(path: Path, **changes: Any) -> GgufFile:
    return GgufFile(toy_files.write_gguf(path / "toy.gguf", toy_files.values(CONFIG), **changes))


def test_sizes_come_from_gguf_metadata(tmp_path: Path) -> None:
    assert gguf_config(gguf(tmp_path)) == CONFIG


def test_sizes_come_from_hugging_faces_config(tmp_path: Path) -> None:
    """There the pairs of rotary positions are half a head apart, and eps is float32 of the decimal number."""
    folder = toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG))

    assert hf_config(folder) == ModelConfig(**{**vars(CONFIG), "rope_interleaved": False})


def test_newer_configs_keep_the_base_in_rope_parameters(tmp_path: Path) -> None:
    parameters = {"rope_type": "default", "rope_theta": 7e5}
    folder = toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG), rope_theta=..., rope_parameters=parameters)

    assert hf_config(folder).rope_base == 7e5


def test_an_output_matrix_in_the_file_is_used(tmp_path: Path) -> None:
    own = ModelConfig(**{**vars(CONFIG), "tied_head": False})
    file = GgufFile(toy_files.write_gguf(tmp_path / "own.gguf", toy_files.values(own)))

    assert gguf_config(file) == own
    assert np.array_equal(Renamed(file, own).tensor("head"), toy_files.values(own)["head"])


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_weights_are_found_by_canonical_name(tmp_path: Path, kind: str) -> None:
    given = toy_files.values(CONFIG)
    file: Any = (
        gguf(tmp_path)
        if kind == "gguf"
        else open_weights(toy_files.write_safetensors(tmp_path, given) / "model.safetensors")
    )
    renamed = Renamed(file, CONFIG)

    assert renamed.names == tuple(CONFIG.shapes)
    assert repr(renamed) == f"Renamed({file!r})"
    for name, shape in CONFIG.shapes.items():
        assert renamed.shape(name) == shape and np.array_equal(renamed.tensor(name), given[name])


def test_names_of_both_conventions() -> None:
    assert [raw_name_gguf(n) for n in ("embed", "blk.3.q", "norm")] == [
        "token_embd.weight",
        "blk.3.attn_q.weight",
        "output_norm.weight",
    ]
    assert [raw_name_hf(n) for n in ("head", "blk.12.ffn_norm", "blk.0.down")] == [
        "lm_head.weight",
        "model.layers.12.post_attention_layernorm.weight",
        "model.layers.0.mlp.down_proj.weight",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"llama.rope.dimension_count": 8}, r"llama\.rope\.dimension_count must be 16", id="partial rotary"
        ),
        pytest.param({"llama.rope.scaling.type": "yarn"}, r"rope\.scaling\.type must be 'none'", id="scaling"),
        pytest.param({"llama.expert_count": 8}, r"expert_count must be 0 \(no experts\), got 8", id="experts"),
        pytest.param({"llama.block_count": None}, r"llama\.block_count must be a number, got None", id="missing"),
        pytest.param({"llama.block_count": "two"}, r"block_count must be a number, got 'two'", id="no number"),
        pytest.param({"llama.attention.head_count_kv": 3}, "multiple of kv_heads", id="groups"),
    ],
)
def test_settings_that_are_not_modelled_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        gguf_config(gguf(tmp_path, settings=settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"model_type": "bert"}, "model_type must be 'llama'", id="bert"),
        pytest.param({"attention_bias": True}, "attention_bias must be False", id="bias"),
        pytest.param({"rope_scaling": {"factor": 8}}, "rope_scaling must be None", id="scaling"),
        pytest.param(
            {"rope_parameters": {"rope_type": "llama3"}}, "without scaling are needed, got 'llama3'", id="llama3"
        ),
        pytest.param({"hidden_act": "gelu"}, "hidden_act must be 'silu'", id="gelu"),
        pytest.param({"hidden_size": 64.5}, "hidden_size must be a whole number, got 64.5", id="fraction"),
        pytest.param({"hidden_size": True}, "hidden_size must be a whole number, got True", id="yes"),
        pytest.param(
            {"num_attention_heads": math.inf}, "num_attention_heads must be a whole number, got inf", id="inf"
        ),
        pytest.param(
            {"num_attention_heads": math.nan}, "num_attention_heads must be a whole number, got nan", id="nan"
        ),
        pytest.param({"rope_parameters": 5}, "rope_parameters must be an object, got int", id="rope number"),
        pytest.param({"rope_parameters": [5]}, "rope_parameters must be an object, got list", id="rope list"),
        pytest.param(
            {"rope_parameters": {"rope_theta": "x"}}, r"rope_parameters\.rope_theta must be a number", id="rope text"
        ),
        pytest.param(
            {"rope_theta": math.inf}, "rope_theta must be a number that float32 holds, got inf", id="rope inf"
        ),
        pytest.param(
            {"rms_norm_eps": 1e300}, "rms_norm_eps must be a number that float32 holds, got 1e", id="eps beyond"
        ),
        pytest.param(
            {"rms_norm_eps": 10**400}, "rms_norm_eps must be a number that float32 holds, got 1", id="eps far"
        ),
    ],
)
def test_configs_that_are_not_modelled_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        hf_config(toy_files.write_safetensors(tmp_path, toy_files.values(CONFIG), **settings))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file.*the sizes of a safetensors model stand there", id="missing"),
        pytest.param("{", "not JSON", id="cut"),
        pytest.param("[" * 100_000, "not JSON: nested too deep", id="nested"),
        pytest.param("[]", "a JSON object is needed, got list", id="list"),
    ],
)
def test_an_unreadable_config_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)

    with pytest.raises(Refused, match=message):
        hf_config(tmp_path)


def test_a_missing_a_misshapen_and_a_foreign_tensor_are_refused(tmp_path: Path) -> None:
    """A bias that is read over would change every logit without a word."""
    short, odd = toy_files.values(CONFIG), toy_files.values(CONFIG)
    del short["blk.1.up"]
    odd["blk.1.up"] = odd["blk.1.up"][:95]
    bias = {"blk.0.attn_q.bias": np.zeros(64, np.float32)}

    for name, tensors, extra, message in (
        ("a", short, None, r"tensor blk\.1\.ffn_up\.weight is missing"),
        ("b", odd, None, r"blk\.1\.ffn_up\.weight must have shape \(96, 64\), got \(95, 64\)"),
        ("c", toy_files.values(CONFIG), bias, r"blk\.0\.attn_q\.bias is no part of a Llama-like decoder"),
    ):
        file = GgufFile(toy_files.write_gguf(tmp_path / name, tensors, extra=extra))
        with pytest.raises(Refused, match=message):
            Renamed(file, CONFIG)
