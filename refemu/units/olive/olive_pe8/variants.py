"""Variants of the decisions of olive_pe8."""

from refemu.units import Changes, Variant, choices
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.olive_pe8 import OlivePe8


class Chain(OlivePe8):
    """Four accumulating elements in a row, each of which reduces its sum to 32 bits and raises the flag."""

    order = (0, 1, 2, 3)

    def mac(self, *operands: int) -> Changes:
        changes, acc, flags = super().mac(*operands), self.state.acc, 0
        for element in self.order:
            acc, overflow = reduce(acc + (changes["partial"][element] << changes["shift"][element]), self.overflow)
            flags |= overflow
        return {**changes, "acc": acc, "overflow": flags}


class LowFirst(OlivePe8):
    """The elements compute low x low, low x high, high x low, high x high."""

    def mac(self, *operands: int) -> Changes:
        changes = super().mac(*operands)
        return {**changes, "partial": changes["partial"][::-1], "shift": changes["shift"][::-1]}


VARIANTS: tuple[Variant, ...] = (
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *choices("D-olive-36", "split", "twos_complement", "sign_magnitude"),
    Variant("D-olive-37", "each element reduces its sum to 32 bits", unit_class=Chain),
    Variant("D-olive-37", "the elements are in the order low x low to high x high", unit_class=LowFirst),
)
