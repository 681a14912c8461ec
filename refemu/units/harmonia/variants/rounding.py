"""Roundings to FP16 in other datapaths (D-arith-2), from exact float64 values. [harmonia §IV-B]"""

import numpy as np

from refemu.arith import fp16
from refemu.arith.rounding import Rounding, round_float

LEAST = -24  #: exponent of the smallest subnormal


def to_nearest(x: np.ndarray, ties: Rounding) -> np.ndarray:
    """The nearest FP16 values, ties as `ties` says; magnitudes from 65520 on become infinity, NaN stays."""
    finite = np.where(np.abs(x) < fp16.OVERFLOW, x, 0.0)
    _, exponent = np.frexp(finite)
    places = np.where(finite == 0, LEAST, np.maximum(exponent - 11, LEAST)).astype(np.int32)
    rounded = round_float(np.ldexp(finite, -places), ties).astype(np.float64)
    near = np.copysign(np.ldexp(rounded, places), x)
    return np.where(np.abs(x) < fp16.OVERFLOW, near, np.where(np.isnan(x), x, np.copysign(np.inf, x)))


def saturated(x: np.ndarray) -> np.ndarray:
    """Replace infinity by 65504 with its sign."""
    return np.where(np.isinf(x), np.copysign(fp16.MAX, x), x)


def flushed(x: np.ndarray) -> np.ndarray:
    """Replace a subnormal value by 0 with its sign."""
    return np.where(np.abs(x) < fp16.MIN_NORMAL, np.copysign(0.0, x), x)
