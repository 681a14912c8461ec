"""Other answers to the decisions of olive_edp, and of the decoders inside it."""

from dataclasses import replace
from typing import Any

from refemu.units.alternative import Alternative, choices
from refemu.units.olive.alternatives.pairs import DECODERS, OTHER_OUTLIERS, exchanged
from refemu.units.olive.olive_edp import DotProductUnit, State
from refemu.units.olive.olive_mac import reduce
from refemu.units.olive.ovp_decoder import OvpDecoder


class Chain(DotProductUnit):
    """Every addition is reduced to 32 bits, products in order, then c; a reduction on the way raises the flag."""

    def terms(self, before: State) -> tuple[int, ...]:
        return *before.terms, before.c

    def _reduced(self) -> State:
        before, state = self.state, super()._reduced()
        d, flags = 0, 0
        for term in self.terms(before):
            d, overflow = reduce(d + term, self.overflow)
            flags |= overflow
        return replace(state, d=d, overflow=flags)


class ChainFromC(Chain):
    """As Chain, but c comes first: the products are added to an accumulator of 32 bits."""

    def terms(self, before: State) -> tuple[int, ...]:
        return before.c, *before.terms


class ApartFromC(DotProductUnit):
    """The products are reduced to 32 bits before c is added."""

    def _reduced(self) -> State:
        before, state = self.state, super()._reduced()
        total = 0
        for term in before.terms:
            total += term
        inner, early = reduce(total, self.overflow)
        d, late = reduce(inner + before.c, self.overflow)
        return replace(state, d=d, overflow=early | late)


class OneShifter(DotProductUnit):
    """One shifter behind the adder tree, set by the largest sum of exponents."""

    def _shifted(self) -> State:
        largest = max(self.state.shifts)
        return self.with_terms(product << largest for product in self.state.products)


def _with(kind: type[OvpDecoder]) -> type[DotProductUnit]:
    class Exchanged(DotProductUnit):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.decoders = tuple(exchanged(self.decoders, kind))

    return Exchanged


ALTERNATIVES: tuple[Alternative, ...] = (
    OTHER_OUTLIERS,
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    Alternative("D-olive-34", "every addition of the tree is reduced to 32 bits", variant=Chain),
    Alternative("D-olive-34", "the products are added one by one to c, in 32 bits", variant=ChainFromC),
    Alternative("D-olive-34", "the products are reduced to 32 bits before c is added", variant=ApartFromC),
    Alternative("D-olive-35", "one shifter behind the adder tree, by the largest exponent", variant=OneShifter),
    *(Alternative(decision, says, variant=_with(kind)) for decision, says, kind in DECODERS),
)
