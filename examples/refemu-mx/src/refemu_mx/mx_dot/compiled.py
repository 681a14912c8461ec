"""Compiled form of mx_dot: an exact sum in two integers, the lower one of 32 bits, or float32 additions."""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units import compiled_run
from refemu_mx.mx_converter.compiled import tables
from refemu_mx.mx_dot import UNIT, MxDot
from refemu_mx.rounding import code_of


@compiled_run(UNIT)
def run(unit: MxDot, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Sequence[int]:
    """Multiply every pair of blocks."""
    a_scale, a, b_scale, b = (each.astype(np.int64) for each in inputs)
    (a_m, a_e, _), (b_m, b_e, _) = map(tables, unit.formats)
    negative = (a >> (unit.formats[0].width - 1)) ^ (b >> (unit.formats[1].width - 1))
    m = a_m[a] * b_m[b] * (1 - 2 * negative)
    lsb = unit.formats[0].lsb + unit.formats[1].lsb
    special = _special(unit, a, b)
    special[(a_scale == 255) | (b_scale == 255)] = 0x7FC00000
    exponent = a_scale + b_scale - 254
    _sums(m, a_e[a] + b_e[b] - lsb, lsb, exponent, special, unit.accumulate == "fp32", outputs[0])
    return (len(a),)


def _special(unit: MxDot, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Patterns of sums that are NaN or infinite, 0 of others."""
    with np.errstate(invalid="ignore"):
        terms = unit.formats[0].decode(a) * unit.formats[1].decode(b)
    plus, minus = (terms == np.inf).any(axis=-1), (terms == -np.inf).any(axis=-1)
    nan = np.isnan(terms).any(axis=-1) | (plus & minus)
    return np.where(nan, 0x7FC00000, np.where(plus, 0x7F800000, np.where(minus, 0xFF800000, 0)))


@kernel
def _word(m, e, negative):  # type: ignore[no-untyped-def]
    return min(code_of(m, e, 8, 23, -126), np.int64(0x7F800000)) | np.int64(negative) << 31


@kernel
def _exact(m, shift, lsb, exponent):  # type: ignore[no-untyped-def]
    high, low = np.int64(0), np.int64(0)
    for lane in range(m.shape[0]):
        if shift[lane] >= 32:
            high += m[lane] << (shift[lane] - 32)
        else:
            low += m[lane] << shift[lane]
    high, low = high + (low >> 32), low & 0xFFFFFFFF
    negative = high < 0
    if negative:
        high, low = -high - np.int64(low != 0), (-low) & 0xFFFFFFFF
    if high < 1 << 29:
        return _word(high << 32 | low, lsb + exponent, negative)
    return _word(high << 25 | low >> 8 << 1 | np.int64(low & 0xFF != 0), lsb + exponent + 7, negative)


@kernel
def _in_order(m, shift, lsb, exponent):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for lane in range(m.shape[0]):
        total = np.float32(total + np.float32(m[lane] * 2.0 ** (shift[lane] + lsb)))
    size, place = np.float64(abs(total)), 0
    while size != np.floor(size):
        size, place = size * 2.0, place - 1
    while size >= 9007199254740992.0:
        size, place = size / 2.0, place + 1
    return _word(np.int64(size), place + exponent, total < 0)


@kernel
def _sums(m, shift, lsb, exponent, special, in_order, out):  # type: ignore[no-untyped-def]
    for row in range(m.shape[0]):
        if special[row]:
            out[row] = special[row]
        elif in_order:
            out[row] = _in_order(m[row], shift[row], lsb, exponent[row])
        else:
            out[row] = _exact(m[row], shift[row], lsb, exponent[row])
