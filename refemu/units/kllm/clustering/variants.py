"""Variants of the decisions of clustering."""

from refemu.units.kllm.weighted_sum.variants import option
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = (
    option("D-kllm-7", "the higher of two nearest centroids", tie="high"),
    option("D-kllm-8", "the value is multiplied by the rounded reciprocal of its scale", normalize="reciprocal"),
    option("D-kllm-8", "distances are not rounded", distance="real"),
    option("D-kllm-8", "the value is compared with rounded midpoints", distance="midpoint16"),
)
UNOBSERVABLE = {
    "D-kllm-27": "The ports reject NaN and infinity, so no row of a stimulus has them.",
    "D-kllm-31": "The number of elements per cycle is in the counters only; the index of an element is the same.",
}
