"""Variants of the decisions of streaming_significance."""

from refemu.units.leankv.significance.variants import OPTIONS
from refemu.units.leankv.streaming_significance import StreamingSignificance
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, overriding

_device = overriding(StreamingSignificance)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-73", "rescale", "online", "two_pass"),
    *OPTIONS,
    _device(
        "D-leankv-73: sums are not corrected",
        _summed=lambda old, self, top, largest, *rest: old._summed(largest, largest, *rest),
    ),
    _device("D-arith-2: sums and quotients are truncated", **rounding.TRUNCATED),
)
UNOBSERVABLE: dict[str, str] = {"D-leankv-9": "Logits that are not finite are rejected, so no row of a set has them."}
