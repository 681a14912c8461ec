"""Sizes of models: the numbers of weights that their names say, and experts."""

import pytest

from refemu.arith.checks import Refused
from refemu.models.machine.shapes import SHAPES, Linear, find


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-7b", 6.74),
        ("llama-13b", 13.0),
        ("llama-30b", 32.5),
        ("llama-2-70b", 69.0),
        ("llama-3.2-1b", 1.24),
        ("llama-3.2-3b", 3.2),
        ("llama-3-8b", 8.0),
        ("llama-3-70b", 70.6),
        ("llama-3.1-405b", 405.9),
        ("mistral-7b", 7.24),
        ("mixtral-8x7b", 46.7),
        ("phi-4", 14.7),
        ("opt-6.7b", 6.65),
        ("opt-175b", 174.6),
        ("bloom-7b1", 7.07),
        ("gpt2-xl", 1.56),
        ("bert-base", 0.085),
        ("bert-large", 0.302),
    ],
)
def test_weights_are_as_many_as_published(name: str, billions: float) -> None:
    """Blocks, embedding, and a head of its own unless it is tied; without norms, biases and positions."""
    shape = SHAPES[name]
    tied = name in ("llama-3.2-1b", "llama-3.2-3b", "opt-6.7b", "opt-175b", "bloom-7b1", "gpt2-xl")
    weights = shape.blocks * shape.weights + (1 if tied else 2) * shape.vocab * shape.width

    assert weights / 1e9 == pytest.approx(billions, rel=0.01)


def test_tokens_spread_over_experts() -> None:
    layer = Linear("up", 4, 8, experts=8, active=2)

    assert layer.rows(1) == [1, 1]
    assert layer.rows(3) == [1] * 6
    assert layer.rows(9) == [3, 3, 2, 2, 2, 2, 2, 2]


def test_unknown_shape_names_the_nearest() -> None:
    with pytest.raises(Refused, match=r"unknown shape 'llama-2-7bb'; did you mean 'llama-2-7b'\?"):
        find("llama-2-7bb")
