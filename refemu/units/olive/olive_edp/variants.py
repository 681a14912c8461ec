"""Variants of the decisions of olive_edp, and of the decoders inside it."""

from collections.abc import Iterable

from refemu.units.declaration import Changes
from refemu.units.olive.olive_edp import DotProductUnit
from refemu.units.olive.olive_edp.olive_edp import split, terms
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.ovp_decoder.variants import OTHER_OUTLIERS, of_decoders
from refemu.units.variant import Variant, choices, overriding


class Chain(DotProductUnit):
    """Every addition is reduced to 32 bits, products in order, then c; each reduction can raise the flag."""

    def summands(self) -> Iterable[int]:
        return *terms(self.state), self.state.c

    def reduce(self) -> Changes:
        d, flags = 0, 0
        for term in self.summands():
            d, overflow = reduce(d + term, self.overflow)
            flags |= overflow
        return {**super().reduce(), "d": d, "overflow": flags}


class ChainFromC(Chain):
    """As Chain, but c comes first: the products are added to an accumulator of 32 bits."""

    def summands(self) -> Iterable[int]:
        return self.state.c, *terms(self.state)


def _apart_from_c(old: DotProductUnit, self: DotProductUnit) -> Changes:
    inner, early = reduce(sum(terms(self.state)), self.overflow)
    d, late = reduce(inner + self.state.c, self.overflow)
    return {**old.reduce(), "d": d, "overflow": early | late}


def _one_shifter(self: DotProductUnit) -> Changes:
    largest = max(self.state.shifts)
    return split(product << largest for product in self.state.products)


_device = overriding(DotProductUnit)
VARIANTS: tuple[Variant, ...] = (
    OTHER_OUTLIERS,
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    Variant("D-olive-34", "every addition of the tree is reduced to 32 bits", unit_class=Chain),
    Variant("D-olive-34", "the products are added one by one to c, in 32 bits", unit_class=ChainFromC),
    _device("D-olive-34: the products are reduced to 32 bits before c is added", reduce=_apart_from_c),
    _device("D-olive-35: one shifter after the adder tree, by the largest exponent", shift=_one_shifter),
    *of_decoders(DotProductUnit, "decoders"),
)
