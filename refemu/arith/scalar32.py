"""float32 and fp16 arithmetic on Python floats, for units that are read step by step: plain values, no arrays.

A Python float has 53 bits, at least 2 * 24 + 2: one operation `+ - * /` or a square root on float32 values, rounded
once more to float32 by `f32`, is the correctly rounded float32 result.
"""

import math
import struct

import numpy as np

from refemu.arith import fp16

_FLOAT, _DOUBLE, _HALF = struct.Struct("<f"), struct.Struct("<d"), struct.Struct("<e")
_NEAREST = fp16._round  #: primitive of which `pattern16` is a shortcut; where it is exchanged, the exchange counts
INFINITY = 0x7F80_0000  #: pattern of +infinity; magnitudes above it are NaN


def f32(x: float) -> float:
    """`x` rounded to float32, half to even, beyond the largest value infinity."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(x))[0])
    except OverflowError:  # what `pack` makes of a finite value that rounds to infinity
        return math.copysign(math.inf, x)


def pattern32(x: float) -> int:
    """Pattern of the float32 nearest to `x`; of any NaN the positive quiet one."""
    if x != x:
        return 0x7FC0_0000
    try:
        return int.from_bytes(_FLOAT.pack(x), "little")
    except OverflowError:
        return INFINITY | (0x8000_0000 if x < 0 else 0)


def value32(pattern: int) -> float:
    """Value of a float32 pattern."""
    return float(_FLOAT.unpack(pattern.to_bytes(4, "little"))[0])


def pattern16(x: float) -> int:
    """Pattern of the fp16 nearest to `x`, in one rounding; of any NaN the positive quiet one."""
    if x != x:
        return 0x7E00
    if fp16._round is not _NEAREST:
        return int(fp16.bits(fp16.narrow(fp16._round(np.array(x), fp16.IEEE))))
    try:
        return int.from_bytes(_HALF.pack(x), "little")
    except OverflowError:
        return 0x7C00 | (0x8000 if x < 0 else 0)


def value16(pattern: int) -> float:
    """Value of an fp16 pattern."""
    return float(_HALF.unpack(pattern.to_bytes(2, "little"))[0])


def odd_sum(a: float, b: float) -> float:
    """a + b rounded to odd: an inexact sum ends in 1, on the side of its error, so that a rounding may follow."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    if not math.isfinite(error) or error == 0:
        return total
    other = math.nextafter(total, math.copysign(math.inf, error))
    return total if int.from_bytes(_DOUBLE.pack(total), "little") & 1 else other


def div32(a: float, b: float) -> float:
    """a / b rounded to float32, with IEEE 754's results for zeros and infinities, where Python raises."""
    if b != 0:
        return f32(a / b)
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)
