"""The tensors of a block: which activations there are, how long they are, which linear layers read them."""

from typing import Any

from refemu.models.schemes.kllm import tensors
from tests.models.schemes.kllm import plain

SMALL: Any = plain.small().config
LAYERED: Any = plain.layered().config


def test_activations_of_a_block_follow_the_model() -> None:
    assert set(tensors.activations(SMALL)) - set(tensors.activations(LAYERED)) == {"gate"}
    assert tensors.readers(LAYERED) == {
        "attn_in": ("q", "k", "v"),
        "o_in": ("o",),
        "ffn_in": ("up",),
        "down_in": ("down",),
    }


def test_widths_are_those_of_the_weights() -> None:
    """A linear layer's inputs are what it reads, its outputs what is quantized after it."""
    for sizes in (SMALL, LAYERED):
        widths = tensors.widths(sizes)
        for tensor, names in tensors.readers(sizes).items():
            for name in names:
                outputs, inputs = sizes.shapes[f"blk.0.{name}"]
                assert inputs == widths[tensor]
                assert outputs == widths.get(name, sizes.width)
