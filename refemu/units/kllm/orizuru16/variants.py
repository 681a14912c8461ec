"""Variants of the decisions of orizuru16."""

from refemu.units.kllm.orizuru16 import Orizuru16
from refemu.units.variant import Variant, choices, replaces, variants_of


class Devices(Orizuru16):
    """Methods of other designs."""

    @replaces("_right", "D-kllm-22", "an unavailable value takes part")
    def popped_wins(self, left: int, right: int, wins: int) -> int:
        return wins

    @replaces("key", "D-kllm-27", "-0 is below +0")
    def signed_zeros(self, word: int) -> int:
        magnitude = word & 0x7FFF
        return -magnitude - 1 if word & 0x8000 else magnitude


VARIANTS: tuple[Variant, ...] = (*choices("D-kllm-21", "min_leaf", "not_max", "compare"), *variants_of(Devices))
UNOBSERVABLE: dict[str, str] = {
    "D-kllm-70": "A row of a set shows both trees when they have settled, whether in one edge or in four.",
}
