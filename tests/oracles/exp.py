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
