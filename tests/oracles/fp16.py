"""IEEE half precision on 16-bit words, and float32 on Python floats: `struct`, `Fraction`, integer square root."""

import math
import struct
from fractions import Fraction

from tests.oracles.rounding import round_fraction

NAN = 0x7E00
INF = 0x7C00
SIGN = 0x8000


def to_float(u: int) -> float:
    """The value of an fp16 word, as a Python float."""
    return float(struct.unpack("<e", struct.pack("<H", u))[0])


def from_float(x: float) -> int:
    """The fp16 word nearest to a Python float, ties to even; NaN is 0x7E00."""
    if math.isnan(x):
        return NAN
    try:
        return int(struct.unpack("<H", struct.pack("<e", x))[0])
    except OverflowError:
        return (SIGN if x < 0 else 0) | INF


def round_to(x: Fraction, precision: int, lowest: int, top: int) -> Fraction | None:
    """`x` >= 0 to `precision` bits, half to even, quantum at least 2**lowest; None if that is 2**top or more."""
    if x == 0:
        return Fraction(0)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    quantum = Fraction(2) ** max(exponent - precision + 1, lowest)
    rounded = round_fraction(x / quantum, "half_even") * quantum
    return rounded if rounded < Fraction(2) ** top else None


def from_fraction(x: Fraction, negative_zero: bool = False) -> int:
    """The fp16 word nearest to an exact value, ties to even; an exact zero takes its sign from `negative_zero`."""
    sign = SIGN if x < 0 or (x == 0 and negative_zero) else 0
    magnitude = round_to(abs(Fraction(x)), 11, -24, 16)
    return sign | (INF if magnitude is None else from_float(float(magnitude)))


def f32(x: float) -> float:
    """A Python float rounded to float32, as a Python float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def f32_bits(x: float) -> int:
    """The 32-bit word of a Python float after rounding to float32; NaN is 0x7FC00000."""
    return 0x7FC00000 if math.isnan(x) else int(struct.unpack("<I", struct.pack("<f", f32(x)))[0])


def f32_from_fraction(x: Fraction, negative_zero: bool = False) -> float:
    """The float32 nearest to an exact value, ties to even; an exact zero takes its sign from `negative_zero`."""
    magnitude = round_to(abs(Fraction(x)), 24, -149, 128)
    return math.copysign(math.inf if magnitude is None else float(magnitude), -1 if x < 0 or negative_zero else 1)


def add(u: int, v: int) -> int:
    """u + v; the sum of two fp16 values is exact in a Python float."""
    return from_float(to_float(u) + to_float(v))


def sub(u: int, v: int) -> int:
    """u - v."""
    return from_float(to_float(u) - to_float(v))


def mul(u: int, v: int) -> int:
    """u * v; the product of two fp16 values is exact in a Python float."""
    return from_float(to_float(u) * to_float(v))


def div(u: int, v: int) -> int:
    """u / v."""
    a, b = to_float(u), to_float(v)
    sign = (u ^ v) & SIGN
    if math.isnan(a) or math.isnan(b) or (a == 0 == b) or (math.isinf(a) and math.isinf(b)):
        return NAN
    if math.isinf(a) or b == 0:
        return sign | INF
    if math.isinf(b):
        return sign
    return from_fraction(Fraction(a) / Fraction(b), negative_zero=sign != 0)


def sqrt(u: int) -> int:
    """The square root: the integer one of the value times 2**80, with a sticky bit for the rest."""
    x = to_float(u)
    if math.isnan(x) or x < 0:
        return NAN
    if x == 0 or math.isinf(x):
        return u
    scaled = Fraction(x) * 2**80
    root = math.isqrt(scaled.numerator)
    sticky = Fraction(1, 2) if root * root != scaled.numerator else Fraction(0)
    return from_fraction((root + sticky) / 2**40)


def exact_fma(a: float, b: float, c: float) -> Fraction | float:
    """a*b + c without rounding: a Fraction, or a float where the result is NaN, infinite or a signed zero."""
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0:
        return exact
    negative_product = math.copysign(1, a) * math.copysign(1, b) < 0
    both_negative = negative_product and math.copysign(1, c) < 0 and a * b == 0 == c
    return -0.0 if both_negative else 0.0


def fma(u: int, v: int, w: int) -> int:
    """u * v + w, rounded once."""
    exact = exact_fma(to_float(u), to_float(v), to_float(w))
    return from_fraction(exact) if isinstance(exact, Fraction) else from_float(exact)


def fma32(a: float, b: float, c: float) -> float:
    """a * b + c of float32 values, rounded once to float32."""
    exact = exact_fma(a, b, c)
    return f32_from_fraction(exact) if isinstance(exact, Fraction) else exact
