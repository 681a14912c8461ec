"""GGUF files of every architecture: sizes, places of weights; unmodelled parts are rejected."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling, YarnScaling, yarn_gain
from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.weights.files import GgufFile
from refemu.models.weights.gguf_decoders import gguf_config, open_decoder, raw_name
from tests.models import toy_families, toy_files
from tests.models.held import Held
from tests.models.toy_files import CONFIG


def gguf(path: Path, **changes: Any) -> GgufFile:
    return GgufFile(toy_files.write_gguf(path / "toy.gguf", toy_files.values(CONFIG), **changes))


def test_sizes_come_from_gguf_metadata(tmp_path: Path) -> None:
    assert gguf_config(gguf(tmp_path)) == CONFIG


def test_an_output_matrix_in_the_file_is_used(tmp_path: Path) -> None:
    own = ModelConfig(**{**vars(CONFIG), "tied_head": False})
    file = GgufFile(toy_files.write_gguf(tmp_path / "own.gguf", toy_files.values(own)))

    assert gguf_config(file) == own
    assert np.array_equal(open_decoder(file)[1].tensor("head"), toy_files.values(own)["head"])


def test_names_are_those_of_the_gguf_package() -> None:
    assert [raw_name(part, prefix) for part, prefix in (("embed", ""), ("q", "blk.3"), ("norm", ""))] == [
        "token_embd",
        "blk.3.attn_q",
        "output_norm",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"llama.rope.dimension_count": 5}, r"rotary_dim must be even, got 5", id="partial rotary"),
        pytest.param(
            {"llama.rope.scaling.type": "dynamic"},
            r"rope\.scaling\.type must be one of none, linear, yarn, longrope, got 'dynamic'",
            id="scaling",
        ),
        pytest.param({"llama.attention.clamp_kqv": 8.0}, r"llama\.attention\.clamp_kqv is not a setting", id="unknown"),
        pytest.param({"llama.expert_count": 8}, r"expert_count must be 0 \(no experts\), got 8", id="experts"),
        pytest.param({"llama.block_count": None}, r"llama\.block_count must be a number, got None", id="missing"),
        pytest.param({"llama.block_count": "two"}, r"block_count must be a number, got 'two'", id="no number"),
        pytest.param(
            {"llama.attention.head_count_kv": 3}, r"toy\.gguf: ModelConfig: .*multiple of kv_heads", id="groups"
        ),
        pytest.param({"llama.attention.causal": False}, r"attention\.causal must be True", id="causal"),
    ],
)
def test_settings_that_are_not_modelled_are_rejected(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        gguf_config(gguf(tmp_path, settings=settings))


def test_a_decoder_may_say_that_it_is_causal(tmp_path: Path) -> None:
    assert gguf_config(gguf(tmp_path, settings={"llama.attention.causal": True})) == gguf_config(gguf(tmp_path))


def test_missing_misshapen_and_foreign_tensor_are_rejected(tmp_path: Path) -> None:
    """A bias that is read over would change every logit without a word."""
    short, odd = toy_files.values(CONFIG), toy_files.values(CONFIG)
    del short["blk.1.up"]
    odd["blk.1.up"] = odd["blk.1.up"][:95]
    bias = {"blk.0.attn_q.bias": np.zeros(64, np.float32)}

    for name, tensors, extra, message in (
        ("a", short, None, r"tensor blk\.1\.ffn_up\.weight is missing"),
        ("b", odd, None, r"blk\.1\.ffn_up\.weight must have shape \(96, 64\), got \(95, 64\)"),
        ("c", toy_files.values(CONFIG), bias, r"blk\.0\.attn_q\.bias is not part of a Llama-like decoder"),
    ):
        file = GgufFile(toy_files.write_gguf(tmp_path / name, tensors, extra=extra))
        with pytest.raises(Refused, match=message):
            open_decoder(file)


IDS = [3, 0, 16, 7, 7, 12, 1, 9, 4, 15, 2]


@pytest.mark.parametrize("kind", toy_families.CONFIGS)
def test_file_of_every_architecture_loads_its_weights(kind: str, tmp_path: Path) -> None:
    """Llama's rotary pairs are adjacent there, so its sums have another order; the others are equal."""
    config, given = toy_families.CONFIGS[kind], toy_families.values(kind)
    model = models.load(toy_families.write_gguf(tmp_path / "toy.gguf", kind, given))
    held = Model("toy", config, Held(given), "")

    assert model.config == (dataclasses.replace(config, rope_interleaved=True) if kind == "llama" else config)
    for name, weight in given.items():
        if kind != "llama" or name.rpartition(".")[2] not in ("q", "k"):
            assert np.array_equal(model.tensor(name), weight), name
    found, wanted = models.run(model, IDS).logits, models.run(held, IDS).logits
    assert np.allclose(found, wanted, rtol=0, atol=2e-2) if kind == "llama" else found.tobytes() == wanted.tobytes()


def test_llama3_frequencies_are_a_tensor(tmp_path: Path) -> None:
    factors = {"rope_freqs.weight": np.array([1, 1, 1.5, 2, 3, 5, 8, 8], np.float32)}
    file = gguf(tmp_path, extra=factors)
    config, weights = open_decoder(file)

    assert config.rope_scaling == FactorScaling((1, 1, 1.5, 2, 3, 5, 8, 8)) and "embed" in weights.names
    with pytest.raises(Refused, match=r"rope.scaling.type must be 'none', got 'linear'"):
        (tmp_path / "b").mkdir()
        gguf_config(gguf(tmp_path / "b", extra=factors, settings={"llama.rope.scaling.type": "linear"}))


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({"type": "linear", "factor": 4.0}, LinearScaling(4.0)),
        (
            {"type": "yarn", "factor": 4.0, "original_context_length": 32},
            YarnScaling(4.0, 32, gain=yarn_gain(4.0)),
        ),
    ],
)
def test_scalings_are_read(settings: dict[str, Any], scaling: Any, tmp_path: Path) -> None:
    named = {f"llama.rope.scaling.{key}": value for key, value in settings.items()}

    assert gguf_config(gguf(tmp_path, settings=named)).rope_scaling == scaling


def test_one_list_of_factors_alone_is_rejected(tmp_path: Path) -> None:
    extra = {"rope_factors_long.weight": np.ones(8, np.float32)}

    with pytest.raises(Refused, match=r"tensor rope_factors_short\.weight is missing"):
        gguf_config(gguf(tmp_path, extra=extra))


def test_another_architecture_is_rejected_by_name(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    toy_families.write_gguf(path, "qwen2", toy_families.values("qwen2"))
    path.write_bytes(path.read_bytes().replace(b"qwen2", b"mamba"))

    with pytest.raises(Refused, match=r"architecture must be one of llama, qwen2, .*, got 'mamba'"):
        models.load(path)
