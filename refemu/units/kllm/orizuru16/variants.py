"""Variants of the decisions of orizuru16."""

from refemu.units.kllm.orizuru16 import Orizuru16
from refemu.units.variant import Variant, choices


class PoppedWins(Orizuru16):
    """An unavailable value takes part with its word."""

    def _right(self, left: int, right: int, wins: int) -> int:
        return wins


class SignedZeros(Orizuru16):
    """-0 is below +0."""

    def key(self, word: int) -> int:
        magnitude = word & 0x7FFF
        return -magnitude - 1 if word & 0x8000 else magnitude


VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-21", "min_leaf", "not_max", "compare"),
    Variant("D-kllm-22", "an unavailable value takes part", unit_class=PoppedWins),
    Variant("D-kllm-27", "-0 is below +0", unit_class=SignedZeros),
)
UNOBSERVABLE: dict[str, str] = {
    "D-kllm-70": "A row of a set shows both trees when they have settled, whether in one edge or in four.",
}
