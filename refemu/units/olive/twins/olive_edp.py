"""Compiled twin of olive_edp.run: same arguments, same Result. Read olive_edp.py first. [olive §4.1, Fig. 6a]

Pairs are looked up in a table of all words, and sums are exact in 64 bits. Where biases are so large that either does
not do, pairs are decoded by the decoder's twin, and sums are exact in two words, the low 32 bits and the rest.
"""

from typing import Any

import numpy as np

from refemu.arith.fp16_jit import plain
from refemu.arith.integers import Overflow
from refemu.arith.jit import kernel
from refemu.units import ovp_decoder_jit
from refemu.units.olive_edp import OUTLIER, DotProductUnit, Result
from refemu.units.olive_pairs_jit import elements, fits, reduce, table
from refemu.units.unit import admit

MASK = 0xFFFFFFFF


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    c: Any,
    *,
    a: str = "int4",
    b: str = "int4",
    overflow: str = "wrap",
) -> Result:
    """As `olive_edp.run`."""
    device = DotProductUnit(a, b, overflow)
    arrays = admit(device.name, device.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    start, n, saturate = arrays[-1], device.n, int(device.overflow is Overflow.SATURATE)
    d, over, bad = np.empty(start.size, np.int32), np.empty(start.size, np.bool_), np.empty(start.size, np.bool_)
    left, right = (plain(words).reshape(start.size, n // 2) for words in arrays[:2])
    biases, accumulated = [plain(bias).reshape(-1) for bias in arrays[2:4]], plain(start).reshape(-1)
    if fits(a, biases[0], b, biases[1], n):
        overflows = _dot_by_tables(left, right, *biases, table(a), table(b), accumulated, saturate, d, over, bad)
    else:
        decoded = [
            ovp_decoder_jit.run(words, bias[:, None], normal=kind, outlier=OUTLIER[kind])
            for words, bias, kind in zip((left, right), biases, (a, b), strict=True)
        ]
        fields = [array.reshape(-1, n) for side in decoded for array in (side.exponent, side.base_int)]
        overflows = _dot(*fields, accumulated, saturate, d, over)
        bad[:] = np.any(decoded[0].illegal | decoded[1].illegal, axis=-1)
    shape, macs = start.shape, n * start.size
    return Result(
        d.reshape(shape),
        over.reshape(shape),
        bad.reshape(shape),
        start.size,
        macs,
        macs,
        int(overflows),
        int(np.count_nonzero(bad)),
    )


@kernel
def _dot_by_tables(
    a,
    b,
    a_bias,
    b_bias,
    a_entries,
    b_entries,
    c,
    saturate,  # type: ignore[no-untyped-def]
    d,
    overflow,
    illegal,
):
    overflows = np.int64(0)
    for i in range(a.shape[0]):
        total, marks = np.int64(c[i]), np.int64(0)
        x_row, y_row = a_bias[i], b_bias[i]
        if a_entries.shape[1] == 256:
            for k in range(a.shape[1]):
                x, y = a_entries[x_row, a[i, k]], b_entries[y_row, b[i, k]]
                total += ((x << 33) >> 33) * ((y << 33) >> 33) + (x >> 32) * (y >> 32)
                marks |= (x | y) >> 31
        else:
            for k in range(a.shape[1]):
                x1, x2 = elements(a_entries, x_row, a[i, k])
                y1, y2 = elements(b_entries, y_row, b[i, k])
                total += (x1 >> 1) * (y1 >> 1) + (x2 >> 1) * (y2 >> 1)
                marks |= x1 | x2 | y1 | y2
        result, over = reduce(total, saturate)
        d[i] = result
        overflow[i] = over != 0
        illegal[i] = marks & 1 != 0
        overflows += over
    return overflows


@kernel
def _dot(a_exp, a_int, b_exp, b_int, c, saturate, d, overflow):  # type: ignore[no-untyped-def]
    overflows = np.int64(0)
    for i in range(a_exp.shape[0]):
        low, high = np.int64(c[i]), np.int64(0)
        for k in range(a_exp.shape[1]):
            product = np.int64(a_int[i, k]) * np.int64(b_int[i, k])
            shift = np.int64(a_exp[i, k]) + np.int64(b_exp[i, k])
            # |product| <= 2^14, and <= 15^2 where shift >= 32, as both are outliers: both words stay below 2^50.
            beyond = np.int64(shift >= 32)
            low += (product << min(shift, 31)) * (1 - beyond)
            high += (product << max(shift - 32, 0)) * beyond
        high += low >> 32
        low &= MASK
        top = low >> 31  # the sign of the low word: the sum fits if the high word only repeats it
        over = np.int64(high != -top)
        wrapped = low - (top << 32)
        end = ((1 << 31) - 1) * np.int64(high >= 0) - (1 << 31) * np.int64(high < 0)
        keep = 1 - saturate * over
        d[i] = wrapped * keep + end * (1 - keep)
        overflow[i] = over != 0
        overflows += over
    return overflows
