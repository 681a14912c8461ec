"""Variants of the decisions of significance."""

from refemu.units.leankv.significance import Significance
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, overriding

#: variants of options, for streaming_significance too
OPTIONS: tuple[Variant, ...] = (
    *choices("D-leankv-16", "score_queries", None, 4),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-18", "normalize", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-19", "gqa_order", "queries"),
)
_device = overriding(Significance)
VARIANTS: tuple[Variant, ...] = (
    *OPTIONS,
    _device("D-arith-2: sums and quotients are truncated", **rounding.TRUNCATED),
    _device(
        "D-arith-2: subnormal sums and quotients are 0",
        _added=lambda old, self, a, b: rounding.flushed32(old._added(a, b)),
        _divided=lambda old, self, a, b: rounding.flushed32(old._divided(a, b)),
    ),
    _device("D-arith-2: quotients are products with a rounded reciprocal", **rounding.RECIPROCAL),
)
