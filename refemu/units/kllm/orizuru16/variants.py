"""Variants of the decisions of orizuru16."""

from refemu.units.kllm.orizuru16 import Orizuru16
from refemu.units.variant import Variant, choices, overriding


def _signed_zeros(self: Orizuru16, word: int) -> int:
    magnitude = word & 0x7FFF
    return -magnitude - 1 if word & 0x8000 else magnitude


_device = overriding(Orizuru16)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-21", "min_leaf", "not_max", "compare"),
    _device("D-kllm-22: an unavailable value takes part", _right=lambda self, left, right, wins: wins),
    _device("D-kllm-27: -0 is below +0", key=_signed_zeros),
)
UNOBSERVABLE: dict[str, str] = {
    "D-kllm-70": "A row of a set shows both trees when they have settled, whether in one edge or in four."
}
