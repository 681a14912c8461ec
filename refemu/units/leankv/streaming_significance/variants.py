"""Variants of the decisions of streaming_significance."""

from refemu.units.leankv.streaming_significance import StreamingSignificance
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices


class Truncated(StreamingSignificance):
    """Sums and quotients are truncated."""

    def _added(self, a: float, b: float) -> float:
        return rounding.sum32(a, b)

    def _divided(self, a: float, b: float) -> float:
        return rounding.quotient32(a, b)


class Uncorrected(StreamingSignificance):
    """The sum is not corrected when the maximum grows."""

    def _summed(self, top: float, largest: float, norm: float, seen: list[float], counted: dict[str, int]) -> float:
        return super()._summed(largest, largest, norm, seen, counted)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-73", "rescale", "online", "two_pass"),
    *choices("D-leankv-16", "score_queries", None, 4),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-18", "normalize", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-19", "gqa_order", "queries"),
    Variant("D-leankv-73", "sums are not corrected", unit_class=Uncorrected),
    Variant("D-arith-2", "sums and quotients are truncated", unit_class=Truncated),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "Logits that are not finite are rejected, so no row of a set has them.",
}
