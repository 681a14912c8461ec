"""Correctly rounded float32 exponential, by `decimal` with 60 digits."""

import decimal
import math
from fractions import Fraction

from tests.oracles.fp16 import f32_from_fraction

CONTEXT = decimal.Context(prec=60, Emin=-9999, Emax=9999)


def exp32(x: float) -> float:
    """e**x of a float32 value, rounded once to float32.

    60 digits decide: e**x of a non-zero binary fraction is never a binary fraction, and no float32 argument comes
    nearer to a midpoint than a relative 2**-60 or so.
    """
    if math.isnan(x):
        return math.nan
    if x > 90:
        return math.inf
    if x < -110:
        return 0.0
    return f32_from_fraction(Fraction(CONTEXT.exp(decimal.Decimal(x))))


def tanh32(x: float) -> float:
    """The hyperbolic tangent of a float32 value, rounded once to float32, with the sign of x."""
    if math.isnan(x):
        return math.nan
    a = decimal.Decimal(abs(x))
    if a > 20:
        return math.copysign(1.0, x)
    if a < decimal.Decimal("1e-6"):
        return x  # x - x**3 / 3 rounds to x
    e = CONTEXT.exp(CONTEXT.multiply(a, decimal.Decimal(-2)))
    exact = CONTEXT.divide(CONTEXT.subtract(1, e), CONTEXT.add(1, e))
    return math.copysign(f32_from_fraction(Fraction(exact)), x)


def alibi(heads: int) -> list[float]:
    """The slopes of heads, rounded once to float32: powers of 2**(-8/n), then odd ones of 2**(-4/n)."""
    n = 2 ** (heads.bit_length() - 1)
    exponents = [Fraction(-8 * h, n) for h in range(1, n + 1)]
    exponents += [Fraction(-4 * h, n) for h in range(1, 2 * (heads - n), 2)]
    two = decimal.Decimal(2)
    powers = [CONTEXT.power(two, CONTEXT.divide(decimal.Decimal(e.numerator), e.denominator)) for e in exponents]
    return [f32_from_fraction(Fraction(power)) for power in powers]
