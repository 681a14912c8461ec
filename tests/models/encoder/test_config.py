"""Sizes of an encoder: names and shapes that follow, what cannot exist."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.models.encoder.config import BIAS, LINEARS, EncoderConfig

MINILM: dict[str, Any] = {"blocks": 6, "width": 384, "ffn": 1536, "heads": 12, "vocab": 30_522, "context": 512}


def test_minilm_has_its_number_of_parameters() -> None:
    """22,713,728 elements in the file, less the pooler and 512 position ids."""
    counted = 0
    for shape in EncoderConfig(**MINILM).shapes.values():
        counted += shape[0] * (shape[1] if len(shape) == 2 else 1)

    assert counted == 22_713_728 - (384 * 384 + 384) - 512


def test_shapes_are_in_model_order_with_every_bias() -> None:
    shapes = EncoderConfig(**{**MINILM, "blocks": 1}).shapes
    parts = [
        f"blk.0.{name}{end}"
        for name in ("q", "k", "v", "o", "attn_norm", "up", "down", "ffn_norm")
        for end in ("", BIAS)
    ]

    assert list(shapes) == ["embed", "position", "token_type", "embed_norm", "embed_norm" + BIAS, *parts]
    assert (shapes["blk.0.down"], shapes["blk.0.up" + BIAS]) == ((384, 1536), (1536,))


def test_groups_name_the_linear_layers() -> None:
    shapes = EncoderConfig(**{**MINILM, "blocks": 1}).shapes
    linear = [name for name, shape in shapes.items() if name.startswith("blk") and len(shape) == 2]

    assert linear == [f"blk.0.{name}" for group in LINEARS for name in group]


def test_macs_include_linear_layers_and_full_attention() -> None:
    config = EncoderConfig(blocks=2, width=4, ffn=6, heads=2, vocab=10, context=8)

    assert config.macs(3) == 2 * (3 * (4 * 16 + 2 * 24) + 2 * 9 * 4)


def test_head_dim_divides_the_width() -> None:
    assert EncoderConfig(**MINILM).head_dim == 32


def test_config_repr_evaluates_back() -> None:
    assert eval(repr(EncoderConfig(**MINILM))) == EncoderConfig(**MINILM)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"blocks": 0}, "blocks must be at least 1, got 0", id="no blocks"),
        pytest.param({"token_types": 0}, "token_types must be at least 1, got 0", id="no token type"),
        pytest.param({"heads": 7}, "width must be a multiple of heads, got 384, 7", id="uneven heads"),
        pytest.param({"norm_eps": 0.0}, "norm_eps must be above 0, got 0.0", id="eps"),
        pytest.param({"norm_eps": float("nan")}, "norm_eps must be above 0, got nan", id="eps nan"),
    ],
)
def test_impossible_sizes_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        EncoderConfig(**{**MINILM, **change})
