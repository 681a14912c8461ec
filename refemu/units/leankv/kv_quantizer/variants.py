"""Variants of the decisions of kv_quantizer."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from refemu.arith.scalar32 import pattern16
from refemu.formats.leankv.affine import Affine
from refemu.units.leankv.kv_quantizer import KvQuantizer
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices

LARGEST, LEAST_NORMAL = 0x7BFF, 0x0400  #: patterns of fp16


def _formats(**fields: Any) -> type[KvQuantizer]:
    """A quantizer whose formats differ in one field."""

    class Other(KvQuantizer):
        @property
        def _format(self) -> Affine:
            return replace(super()._format, **fields)

    return Other


class FirstOfEqual(KvQuantizer):
    """The first of zeros of both signs stays."""

    def _lower(self, value: float, least: float) -> bool:
        return value < least

    def _higher(self, value: float, largest: float) -> bool:
        return value > largest


class MinusBelowPlus(KvQuantizer):
    """-0 is below +0, as in minimum and maximum of IEEE 754-2019."""

    def _lower(self, value: float, least: float) -> bool:
        return (value, math.copysign(1.0, value)) < (least, math.copysign(1.0, least))

    def _higher(self, value: float, largest: float) -> bool:
        return (value, math.copysign(1.0, value)) > (largest, math.copysign(1.0, largest))


class SignedZeros(KvQuantizer):
    """The minimum has the sign of its zero even if -min is stored."""

    def _element(self, pattern: int) -> float:
        return -0.0 if pattern == 0x8000 else super()._element(pattern)


class SignFlipped(KvQuantizer):
    """-min is the minimum with its sign inverted: -0 where the minimum is +0."""

    def _zero(self, low: float) -> int:
        return pattern16(-low) if self._format.zero == "neg_min" else super()._zero(low)


class StepOne(KvQuantizer):
    """A group of equal features has step 1."""

    def _step(self, low: float, high: float) -> float:
        return 1.0 if low == high else super()._step(low, high)


class NanLargest(KvQuantizer):
    """0 / 0 has the largest code."""

    def _of_nan(self) -> int:
        return self._format.steps


class Saturated(KvQuantizer):
    """A step beyond fp16 is stored as 65504."""

    def _stored(self, s: float) -> int:
        return min(super()._stored(s), LARGEST)


class NeverZero(KvQuantizer):
    """A step that would be stored as 0 is the smallest subnormal."""

    def _stored(self, s: float) -> int:
        return max(super()._stored(s), int(s > 0))


class Flushed(KvQuantizer):
    """A subnormal step is stored as 0."""

    def _stored(self, s: float) -> int:
        pattern = super()._stored(s)
        return pattern if pattern >= LEAST_NORMAL else 0


class Truncated(KvQuantizer):
    """The stored step is truncated."""

    def _stored(self, s: float) -> int:
        return rounding.toward_zero16(s)


class HalfAway(KvQuantizer):
    """The larger of two nearest fp16 steps is stored."""

    def _stored(self, s: float) -> int:
        return rounding.half_away16(s)


class StepTruncated(KvQuantizer):
    """The step in float32 is truncated."""

    def _step(self, low: float, high: float) -> float:
        return rounding.toward_zero32(Fraction(high - low) / self._format.steps)


class HalfUp(KvQuantizer):
    """Codes halfway go up."""

    def _rounded(self, t: float) -> float:
        return t if math.isinf(t) else float(math.floor(Fraction(t) + Fraction(1, 2)))


class HalfDown(KvQuantizer):
    """Codes halfway go down."""

    def _rounded(self, t: float) -> float:
        return t if math.isinf(t) else float(math.ceil(Fraction(t) - Fraction(1, 2)))


class Floored(KvQuantizer):
    """Codes are truncated."""

    def _rounded(self, t: float) -> float:
        return t if math.isinf(t) else float(math.floor(t))


class Wrapped(KvQuantizer):
    """Codes beyond the ends wrap; infinity is the largest."""

    def _clamped(self, whole: float) -> int:
        return super()._clamped(whole) if math.isinf(whole) else int(whole) & self._format.steps


class FirstHighest(KvQuantizer):
    """The first feature of a word is in its highest bits."""

    def _packed(self, codes: Sequence[int]) -> int:
        return super()._packed(codes[::-1])


class BytesSwapped(KvQuantizer):
    """Words are big-endian: the first features are in the high byte."""

    def _packed(self, codes: Sequence[int]) -> int:
        word = super()._packed(codes)
        return word >> 8 | (word & 0xFF) << 8


VARIANTS: tuple[Variant, ...] = (
    Variant("D-leankv-1", "the minimum is stored", unit_class=_formats(zero="min")),
    Variant("D-leankv-1", "-min is stored", unit_class=_formats(zero="neg_min")),
    Variant("D-leankv-2", "distances are multiplied by 1 / s", unit_class=_formats(quant_div="recip_mul")),
    Variant("D-leankv-2", "distances are divided by s", unit_class=_formats(quant_div="div")),
    *choices("D-leankv-3", "quantize_with", "unrounded", "stored"),
    Variant("D-leankv-5", "codes halfway go up", unit_class=HalfUp),
    Variant("D-leankv-5", "codes halfway go down", unit_class=HalfDown),
    Variant("D-leankv-5", "codes are truncated", unit_class=Floored),
    Variant("D-leankv-5", "codes beyond the ends wrap", unit_class=Wrapped),
    Variant("D-leankv-6", "a group of equal features has step 1", unit_class=StepOne),
    Variant("D-leankv-6", "0 / 0 has the largest code", unit_class=NanLargest),
    Variant("D-leankv-7", "a step beyond fp16 is 65504", unit_class=Saturated),
    Variant("D-leankv-7", "a step is never stored as 0", unit_class=NeverZero),
    Variant("D-leankv-8", "the first of equal features stays", unit_class=FirstOfEqual),
    Variant("D-leankv-8", "-0 is below +0", unit_class=MinusBelowPlus),
    Variant("D-leankv-8", "a minimum of -0 stays -0", unit_class=SignedZeros),
    Variant("D-leankv-8", "the sign of the minimum is inverted, even of +0", unit_class=SignFlipped),
    Variant("D-leankv-11", "feature 0 is in the highest bits", unit_class=FirstHighest),
    Variant("D-leankv-11", "words are big-endian", unit_class=BytesSwapped),
    Variant("D-arith-2", "the stored step is truncated", unit_class=Truncated),
    Variant("D-arith-2", "the stored step rounds half away from 0", unit_class=HalfAway),
    Variant("D-arith-2", "a subnormal step is stored as 0", unit_class=Flushed),
    Variant("D-arith-2", "the step in float32 is truncated", unit_class=StepTruncated),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "the port rejects NaN and infinity, so no row of a set has them",
}
