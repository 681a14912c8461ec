"""Roundings of other datapaths (D-arith-2), from values in Python's floats. [leankv §6.2]"""

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith.scalar32 import div32, f32

HALF_WORDS = 0x7C00  #: pattern of fp16's infinity: finite magnitudes are below it


def value16(pattern: int) -> float:
    """Value of an fp16 pattern; 2**16 for infinity, the start of the next binade."""
    if pattern & 0x7FFF == HALF_WORDS:
        return math.copysign(65536.0, -1.0 if pattern & 0x8000 else 1.0)
    return float(struct.unpack("<e", pattern.to_bytes(2, "little"))[0])


def toward_zero16(x: float) -> int:
    """Pattern of `x` truncated to fp16; 65504 beyond the range."""
    magnitude = _below(abs(x))
    return magnitude | (0x8000 if math.copysign(1.0, x) < 0 else 0)


def half_away16(x: float) -> int:
    """Pattern of the nearest fp16; the larger magnitude of two."""
    magnitude = _below(abs(x))
    low, high = value16(magnitude), value16(magnitude + 1)
    up = Fraction(abs(x)) - Fraction(low) >= Fraction(high) - Fraction(abs(x))
    return (magnitude + up) | (0x8000 if math.copysign(1.0, x) < 0 else 0)


def _below(magnitude: float) -> int:
    """The largest finite pattern whose value is at most `magnitude`."""
    low, high = 0, HALF_WORDS - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if value16(middle) <= magnitude else (low, middle - 1)
    return low


def patterns(pattern_of: Callable[[float], int], values: np.ndarray) -> np.ndarray:
    """fp16 patterns of finite values by a rounding."""
    return np.array([pattern_of(value) for value in values.ravel().tolist()], np.uint16).reshape(values.shape)


def toward_zero32(exact: Fraction) -> float:
    """An exact value truncated to float32; the largest beyond the range."""
    near = f32(float(exact))
    if math.isinf(near):
        return math.copysign(float.fromhex("0x1.fffffep127"), near)
    return near if abs(Fraction(near)) <= abs(exact) else step32(near)


def step32(value: float) -> float:
    """The float32 next to a value other than 0, in the direction of 0."""
    pattern = int.from_bytes(struct.pack("<f", value), "little")
    return float(struct.unpack("<f", (pattern - 1).to_bytes(4, "little"))[0])


def flushed32(value: float) -> float:
    """Replace a subnormal float32 by 0 with its sign."""
    return value if abs(value) >= 1 / (1 << 126) else math.copysign(0.0, value)


def sum32(a: float, b: float) -> float:
    """a + b truncated to float32."""
    return toward_zero32(Fraction(a) + Fraction(b)) if math.isfinite(a + b) else a + b


def quotient32(a: float, b: float) -> float:
    """a / b truncated to float32; b is not 0."""
    return toward_zero32(Fraction(a) / Fraction(b)) if math.isfinite(a) and math.isfinite(b) else f32(a / b)


def times_reciprocal(a: float, b: float) -> float:
    """a * (1 / b), both rounded to float32; b is not 0."""
    inverse = div32(1.0, b)
    return f32(a * inverse)


#: methods of a unit with sums and quotients in float32, in other datapaths
TRUNCATED: dict[str, Any] = {"_added": lambda self, a, b: sum32(a, b), "_divided": lambda self, a, b: quotient32(a, b)}
RECIPROCAL: dict[str, Any] = {"_divided": lambda self, a, b: times_reciprocal(a, b)}
