"""Compiled twin of mmaovp.run: same arguments, same Result. Read mmaovp.py first. [olive §4.6]

Every pair is decoded once and counted as often as the unit decodes it: by a table, its sums being exact in 64 bits;
or where biases are too large for that by the decoder's twin, its sums being exact in two words.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.fp16_jit import plain
from refemu.arith.integers import total
from refemu.arith.jit import kernel
from refemu.units import ovp_decoder_jit
from refemu.units.mmaovp import CHUNKS, COLUMNS, EDPS, ROWS, TYPES, MmaOvp, Result
from refemu.units.olive_edp import OUTLIER
from refemu.units.olive_pairs_jit import decode, dot, fits, reduce, table
from refemu.units.unit import admit

MASK = 0xFFFFFFFF


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    c: Any,
    *,
    a_type: str = "ovpi4",
    b_type: str = "ovpi4",
    overflow: str = "wrap",
) -> Result:
    """As `mmaovp.run`."""
    core = MmaOvp(a_type, b_type, overflow)
    arrays = admit(core.name, core.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    shape, n, kinds = arrays[2].shape, core.k // CHUNKS, (TYPES[a_type], TYPES[b_type])
    tiles, outputs, saturate = prod(shape), ROWS * COLUMNS, int(overflow == "saturate")
    d, over = np.empty((tiles, outputs), np.int32), np.empty((tiles, outputs), np.bool_)
    words = [plain(pairs).reshape(tiles, ROWS * CHUNKS, n // 2) for pairs in arrays[:2]]
    biases, start = [plain(bias).reshape(tiles) for bias in arrays[2:4]], plain(arrays[4]).reshape(tiles, outputs)
    some = np.empty(tiles, np.int64)  # operations with an illegal pair
    if fits(kinds[0], biases[0], kinds[1], biases[1], n):
        tables = [table(kind) for kind in kinds]
        overflows = _multiply_by_tables(*words, *biases, *tables, start, saturate, d, over, some)
    else:
        decoded = [
            ovp_decoder_jit.run(pairs, bias[:, None, None], normal=kind, outlier=OUTLIER[kind])
            for pairs, bias, kind in zip(words, biases, kinds, strict=True)
        ]
        elements = [array.reshape(-1, ROWS, CHUNKS, n) for side in decoded for array in (side.exponent, side.base_int)]
        overflows = _multiply(*elements, start, saturate, d, over)
        bad = [np.any(side.illegal.reshape(tiles, ROWS, CHUNKS, n // 2), axis=-1) for side in decoded]
        illegal = bad[0][:, :, None] | bad[1][:, None]  # of every operation: tile, i, j, chunk
        some[:] = np.count_nonzero(illegal.reshape(tiles, outputs * CHUNKS), axis=1)
    operations = tiles * outputs * CHUNKS
    return Result(
        d.reshape(*shape, outputs),
        over.reshape(*shape, outputs),
        (some > 0).reshape(shape),
        operations,
        n * operations,
        n * operations,
        int(overflows),
        int(total(some)),
        operations // EDPS,
    )


@kernel
def _multiply_by_tables(
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
    some,
):
    """some: by tile, operations with an illegal pair."""
    n = 2 * a.shape[2]
    x, y = np.empty((ROWS * CHUNKS, n), np.int32), np.empty((COLUMNS * CHUNKS, n), np.int32)
    x_marks, y_marks = np.empty(ROWS * CHUNKS, np.int64), np.empty(COLUMNS * CHUNKS, np.int64)
    overflows = np.int64(0)
    for tile in range(a.shape[0]):
        decode(a, a_bias[tile], a_entries, tile, x, x_marks)
        decode(b, b_bias[tile], b_entries, tile, y, y_marks)
        some[tile] = 0
        for chunk in range(CHUNKS):
            rows, columns = np.int64(ROWS), np.int64(COLUMNS)  # without an illegal pair
            for i in range(ROWS):
                rows -= x_marks[i * CHUNKS + chunk]
                columns -= y_marks[i * CHUNKS + chunk]
            some[tile] += ROWS * COLUMNS - rows * columns
        for i in range(ROWS):
            for j in range(COLUMNS):
                result, flag = np.int64(c[tile, i * COLUMNS + j]), np.int64(0)
                for chunk in range(CHUNKS):
                    result, over = reduce(result + dot(x, i * CHUNKS + chunk, y, j * CHUNKS + chunk, n), saturate)
                    flag |= over
                    overflows += over
                d[tile, i * COLUMNS + j] = result
                overflow[tile, i * COLUMNS + j] = flag != 0
    return overflows


@kernel
def _multiply(a_exp, a_int, b_exp, b_int, c, saturate, d, overflow):  # type: ignore[no-untyped-def]
    overflows = np.int64(0)
    for tile in range(a_exp.shape[0]):
        for i in range(a_exp.shape[1]):
            for j in range(b_exp.shape[1]):
                place = i * b_exp.shape[1] + j
                result, flag = np.int64(c[tile, place]), np.int64(0)
                for chunk in range(a_exp.shape[2]):
                    low, high = result, np.int64(0)
                    for k in range(a_exp.shape[3]):
                        product = np.int64(a_int[tile, i, chunk, k]) * np.int64(b_int[tile, j, chunk, k])
                        shift = np.int64(a_exp[tile, i, chunk, k]) + np.int64(b_exp[tile, j, chunk, k])
                        # |product| <= 2^14, and <= 15^2 where shift >= 32, as both are outliers: both words fit.
                        beyond = np.int64(shift >= 32)
                        low += (product << min(shift, 31)) * (1 - beyond)
                        high += (product << max(shift - 32, 0)) * beyond
                    high += low >> 32
                    low &= MASK
                    top = low >> 31  # the sign of the low word: the sum fits if the high word only repeats it
                    over = np.int64(high != -top)
                    end = ((1 << 31) - 1) * np.int64(high >= 0) - (1 << 31) * np.int64(high < 0)
                    keep = 1 - saturate * over
                    result = (low - (top << 32)) * keep + end * (1 - keep)
                    flag |= over
                    overflows += over
                d[tile, place] = result
                overflow[tile, place] = flag != 0
    return overflows
