"""Sizes of a decoder: names and shapes that follow, what cannot exist."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models.config import ModelConfig

SMOLLM2: dict[str, Any] = {
    "blocks": 30,
    "width": 576,
    "ffn": 1536,
    "heads": 9,
    "kv_heads": 3,
    "head_dim": 64,
    "vocab": 49152,
    "context": 8192,
    "rope_base": 100_000.0,
}


def test_smollm2_has_its_number_of_parameters() -> None:
    counted = 0
    for shape in ModelConfig(**SMOLLM2).shapes.values():
        counted += shape[0] * (shape[1] if len(shape) == 2 else 1)

    assert counted == 134_515_008


def test_shapes_are_in_model_order_out_by_in() -> None:
    shapes = ModelConfig(**{**SMOLLM2, "blocks": 1}).shapes

    assert list(shapes) == [
        "embed",
        *(f"blk.0.{part}" for part in ("attn_norm", "q", "k", "v", "o", "ffn_norm", "gate", "up", "down")),
        "norm",
    ]
    assert (shapes["blk.0.k"], shapes["blk.0.down"]) == ((192, 576), (576, 1536))


def test_own_head_is_weight_of_its_own() -> None:
    assert ModelConfig(**SMOLLM2, tied_head=False).shapes["head"] == (49152, 576)
    assert "head" not in ModelConfig(**SMOLLM2).shapes


GPT2: dict[str, Any] = {
    "blocks": 12,
    "width": 768,
    "ffn": 3072,
    "heads": 12,
    "kv_heads": 12,
    "head_dim": 64,
    "vocab": 50257,
    "context": 1024,
    "norm": "layer",
    "positions": "learned",
    "gated": False,
    "activation": "gelu_tanh",
    "bias": True,
}


def test_gpt2_has_its_number_of_parameters() -> None:
    shapes = ModelConfig(**GPT2).shapes.values()

    assert sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for shape in shapes) == 124_439_808


def test_layers_decide_which_weights_there_are() -> None:
    shapes = ModelConfig(**{**GPT2, "blocks": 1}).shapes
    block = ("attn_norm", "q", "k", "v", "o", "ffn_norm", "up", "down")

    assert list(shapes) == [
        "embed",
        "position",
        *(f"blk.0.{part}{end}" for part in block for end in ("", ".bias")),
        "norm",
        "norm.bias",
    ]
    assert (shapes["position"], shapes["blk.0.up.bias"]) == ((1024, 768), (3072,))
    assert "blk.0.up.bias" not in ModelConfig(**{**GPT2, "bias": False}).shapes


def test_a_decoder_says_how_it_differs_from_llama() -> None:
    assert ModelConfig(**SMOLLM2).meaning == "a Llama-like decoder"
    assert ModelConfig(**GPT2).unlike_llama == ("LayerNorm", "learned positions", "biases", "gelu_tanh without a gate")
    assert ModelConfig(**SMOLLM2).groups[2] == ("gate", "up") and ModelConfig(**GPT2).groups[2] == ("up",)


def test_only_rotary_positions_need_even_heads() -> None:
    assert ModelConfig(**{**GPT2, "head_dim": 63}).head_dim == 63


def test_macs_count_linear_layers_head_and_causal_attention() -> None:
    config = ModelConfig(blocks=2, width=4, ffn=6, heads=2, kv_heads=1, head_dim=2, vocab=10, context=8)
    linear = 4 * 4 + 2 * 4 + 2 * 4 + 4 * 4 + 3 * 4 * 6
    attention = 2 * (1 + 2 + 3) * 2 * 2

    assert config.macs(3) == 3 * (2 * linear + 10 * 4) + 2 * attention
    plain = ModelConfig(**{**vars(config), "activation": "relu", "gated": False, "bias": True})
    assert config.macs(3) - plain.macs(3) == 3 * 2 * 4 * 6


def test_config_repr_evaluates_back() -> None:
    config = ModelConfig(**SMOLLM2)

    assert eval(repr(config)) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"blocks": 0}, "blocks must be at least 1, got 0", id="no blocks"),
        pytest.param({"kv_heads": 2}, "heads must be a multiple of kv_heads, got 9, 2", id="uneven groups"),
        pytest.param({"head_dim": 63}, "head_dim must be even, got 63", id="odd head"),
        pytest.param({"rope_base": float("nan")}, "need rope_base > 1", id="base"),
        pytest.param({"norm": "batch"}, "norm must be rms or layer|norm.*'batch'", id="norm"),
        pytest.param({"positions": "relative"}, "positions.*'relative'", id="positions"),
        pytest.param({"activation": "swish"}, "activation.*'swish'", id="activation"),
        pytest.param({"bias": "some"}, "bias.*'some'", id="bias"),
        pytest.param({"rms_eps": 0.0}, "rms_eps > 0, got", id="eps"),
    ],
)
def test_impossible_sizes_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        ModelConfig(**{**SMOLLM2, **change})
