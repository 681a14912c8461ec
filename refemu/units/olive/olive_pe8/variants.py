"""Variants of the decisions of olive_pe8."""

from refemu.units import Changes, Variant, choices
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.olive_pe8 import OlivePe8
from refemu.units.variant import replaces, variants_of


class Devices(OlivePe8):
    """Methods of other designs."""

    @replaces("mac", "D-olive-37", "each element reduces its sum to 32 bits")
    def chain(self, *operands: int) -> Changes:
        changes, acc, flags = super().mac(*operands), self.state.acc, 0
        for partial, shift in zip(changes["partial"], changes["shift"], strict=True):
            acc, overflow = reduce(acc + (partial << shift), self.overflow)
            flags |= overflow
        return {**changes, "acc": acc, "overflow": flags}

    @replaces("mac", "D-olive-37", "the elements are in the order low x low to high x high")
    def low_first(self, *operands: int) -> Changes:
        changes = super().mac(*operands)
        return {**changes, "partial": changes["partial"][::-1], "shift": changes["shift"][::-1]}


VARIANTS: tuple[Variant, ...] = (
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *choices("D-olive-36", "split", "twos_complement", "sign_magnitude"),
    *variants_of(Devices),
)
