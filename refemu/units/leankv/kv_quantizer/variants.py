"""Variants of the decisions of kv_quantizer."""

import math
from dataclasses import replace
from fractions import Fraction

from refemu.arith.scalar32 import pattern16
from refemu.units.leankv.kv_quantizer import KvQuantizer
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, overriding

LARGEST, LEAST_NORMAL = 0x7BFF, 0x0400  #: patterns of fp16
HALF = Fraction(1, 2)


def _signed(value: float) -> tuple[float, float]:
    """Order of minimum and maximum in IEEE 754-2019: -0 is below +0."""
    return value, math.copysign(1.0, value)


def _large_stored(old: KvQuantizer, self: KvQuantizer, s: float) -> int:
    return pattern if (pattern := old._stored(s)) >= LEAST_NORMAL else 0


def _swapped(old: KvQuantizer, self: KvQuantizer, codes: tuple[int, ...]) -> int:
    return (word := old._packed(codes)) >> 8 | (word & 0xFF) << 8


_device = overriding(KvQuantizer)
VARIANTS: tuple[Variant, ...] = (
    _device("D-leankv-1: the minimum is stored", _format=lambda old, self: replace(old._format, zero="min")),
    _device("D-leankv-1: -min is stored", _format=lambda old, self: replace(old._format, zero="neg_min")),
    _device(
        "D-leankv-2: distances are multiplied by 1 / s",
        _format=lambda old, self: replace(old._format, quant_div="recip_mul"),
    ),
    _device("D-leankv-2: distances are divided by s", _format=lambda old, self: replace(old._format, quant_div="div")),
    *choices("D-leankv-3", "quantize_with", "unrounded", "stored"),
    _device(
        "D-leankv-5: codes halfway go up",
        _rounded=lambda self, t: t if math.isinf(t) else float(math.floor(Fraction(t) + HALF)),
    ),
    _device(
        "D-leankv-5: codes halfway go down",
        _rounded=lambda self, t: t if math.isinf(t) else float(math.ceil(Fraction(t) - HALF)),
    ),
    _device("D-leankv-5: codes are truncated", _rounded=lambda self, t: t if math.isinf(t) else float(math.floor(t))),
    _device(
        "D-leankv-5: codes beyond the ends wrap",
        _clamped=lambda old, self, x: old._clamped(x) if math.isinf(x) else int(x) & self._format.steps,
    ),
    _device(
        "D-leankv-6: a group of equal features has step 1",
        _step=lambda old, self, low, high: 1.0 if low == high else old._step(low, high),
    ),
    _device("D-leankv-6: 0 / 0 has the largest code", _of_nan=lambda self: self._format.steps),
    _device("D-leankv-7: a step beyond fp16 is 65504", _stored=lambda old, self, s: min(old._stored(s), LARGEST)),
    _device("D-leankv-7: a step is never stored as 0", _stored=lambda old, self, s: max(old._stored(s), int(s > 0))),
    _device(
        "D-leankv-8: the first of equal features stays",
        _lower=lambda self, value, least: value < least,
        _higher=lambda self, value, largest: value > largest,
    ),
    _device(
        "D-leankv-8: -0 is below +0",
        _lower=lambda self, value, least: _signed(value) < _signed(least),
        _higher=lambda self, value, largest: _signed(value) > _signed(largest),
    ),
    _device(
        "D-leankv-8: a minimum of -0 stays -0",
        _element=lambda old, self, pattern: -0.0 if pattern == 0x8000 else old._element(pattern),
    ),
    _device(
        "D-leankv-8: the sign of the minimum is inverted, even of +0",
        _zero=lambda old, self, low: pattern16(-low) if self._format.zero == "neg_min" else old._zero(low),
    ),
    _device("D-leankv-11: feature 0 is in the highest bits", _packed=lambda old, self, codes: old._packed(codes[::-1])),
    _device("D-leankv-11: words are big-endian", _packed=_swapped),
    _device("D-arith-2: the stored step is truncated", _stored=lambda self, s: rounding.toward_zero16(s)),
    _device("D-arith-2: the stored step rounds half away from 0", _stored=lambda self, s: rounding.half_away16(s)),
    _device("D-arith-2: a subnormal step is stored as 0", _stored=_large_stored),
    _device(
        "D-arith-2: the step in float32 is truncated",
        _step=lambda self, low, high: rounding.toward_zero32(Fraction(high - low) / self._format.steps),
    ),
)
UNOBSERVABLE: dict[str, str] = {"D-leankv-9": "the port rejects NaN and infinity, so no row of a set has them"}
