"""Variants of the decisions of weighted_sum."""

from typing import Any

from refemu.arith import dot
from refemu.formats.kllm.kllm_arith import LANES
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.variants.arith import option
from refemu.units.kllm.weighted_sum import WeightedSum
from refemu.units.variant import Variant, replaces, variants_of

LARGEST, BITS = 65504, 11  #: largest value of fp16, and bits of its significand


class Devices(WeightedSum):
    """Methods of other designs."""

    @replaces("_open", "D-kllm-4", "a count beyond fp16 saturates")
    def saturated_counts(self, *inputs: Any) -> DeclaredState:
        count, codebook = inputs
        return super()._open(tuple(min(number, LARGEST) for number in count), codebook)

    @replaces("_open", "D-kllm-4", "a count is truncated to eleven bits")
    def truncated_counts(self, *inputs: Any) -> DeclaredState:
        count, codebook = inputs
        drops = [max(number.bit_length() - BITS, 0) for number in count]
        return super()._open(tuple(n >> drop << drop for n, drop in zip(count, drops, strict=True)), codebook)

    @replaces("_open", "D-kllm-4", "a count above 2,047 wraps")
    def narrow_counts(self, *inputs: Any) -> DeclaredState:
        count, codebook = inputs
        return super()._open(tuple(number & ((1 << BITS) - 1) for number in count), codebook)


VARIANTS: tuple[Variant, ...] = (
    option("D-kllm-2", "32 MACs, their results added as a tree", acc="fp16", order=LANES),
    option("D-kllm-3", "fused", acc="fp16_fma", order=dot.Sequential()),
    *variants_of(Devices),
)
