"""Variants of the decisions of significance."""

from refemu.units.leankv.significance import Significance
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices


class Truncated(Significance):
    """Sums and quotients are truncated."""

    def _added(self, a: float, b: float) -> float:
        return rounding.sum32(a, b)

    def _divided(self, a: float, b: float) -> float:
        return rounding.quotient32(a, b)


class Flushed(Significance):
    """Subnormal sums and quotients become 0."""

    def _added(self, a: float, b: float) -> float:
        return rounding.flushed32(super()._added(a, b))

    def _divided(self, a: float, b: float) -> float:
        return rounding.flushed32(super()._divided(a, b))


class Reciprocal(Significance):
    """Quotients are products with a rounded reciprocal."""

    def _divided(self, a: float, b: float) -> float:
        return rounding.times_reciprocal(a, b)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-16", "score_queries", None, 4),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-18", "normalize", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-19", "gqa_order", "queries"),
    Variant("D-arith-2", "sums and quotients are truncated", unit_class=Truncated),
    Variant("D-arith-2", "subnormal sums and quotients are 0", unit_class=Flushed),
    Variant("D-arith-2", "quotients are products with a rounded reciprocal", unit_class=Reciprocal),
)
