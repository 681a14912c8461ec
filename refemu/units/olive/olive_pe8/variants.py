"""Variants of the decisions of olive_pe8."""

from refemu.units import Changes, Variant, choices
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.olive_pe8 import OlivePe8
from refemu.units.variant import overriding


def _chain(old: OlivePe8, self: OlivePe8, *operands: int) -> Changes:
    changes, acc, flags = old.mac(*operands), self.state.acc, 0
    for product, shift in zip(changes["partial"], changes["shift"], strict=True):
        acc, overflow = reduce(acc + (product << shift), self.overflow)
        flags |= overflow
    return {**changes, "acc": acc, "overflow": flags}


def _low_first(old: OlivePe8, self: OlivePe8, *operands: int) -> Changes:
    changes = old.mac(*operands)
    return {**changes, "partial": changes["partial"][::-1], "shift": changes["shift"][::-1]}


_device = overriding(OlivePe8)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *choices("D-olive-36", "split", "twos_complement", "sign_magnitude"),
    _device("D-olive-37: each element reduces its sum to 32 bits", mac=_chain),
    _device("D-olive-37: the elements are in the order low x low to high x high", mac=_low_first),
)
