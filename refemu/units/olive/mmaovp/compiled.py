"""Compiled form of mmaovp: every pair of a tile is decoded once, by a table; sums are exact in 64 bits. [olive §4.6]

At biases too large for either, compiled ovp_decoder decodes the pairs, and a sum is exact in two words. `decodes`
counts a pair as often as the dot product units decode it.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.integers import total
from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.kernels.pairs import decode, decoded, dot, ended, fits, reduce, split, table
from refemu.units.olive.mmaovp import CHUNKS, COLUMNS, EDPS, ROWS, TYPES, UNIT, MmaOvp


@compiled_run(UNIT)
def run(core: MmaOvp, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode, multiply and add, tile by tile."""
    *pairs, bias_a, bias_b, c = inputs
    d, overflow, illegal = outputs
    tiles, n, biases, kinds = len(c), core.k // CHUNKS, (bias_a, bias_b), (TYPES[core.a_type], TYPES[core.b_type])
    words = [array.reshape(tiles, ROWS * CHUNKS, n // 2) for array in pairs]
    saturate = int(core.overflow == "saturate")
    bad = np.empty(tiles, np.int64)  # operations with an illegal pair
    if fits(kinds[0], bias_a, kinds[1], bias_b, n):
        tables = [table(kind) for kind in kinds]
        overflows = _multiply_by_tables(*words, *biases, *tables, c, saturate, d, overflow, bad)
    else:
        sides = [
            decoded(kind, array, bias[:, None, None]) for kind, array, bias in zip(kinds, words, biases, strict=True)
        ]
        elements = [array.reshape(-1, ROWS, CHUNKS, n) for side in sides for array in (side.exponent, side.base_int)]
        overflows = _multiply(*elements, c, saturate, d, overflow)
        left, right = (np.any(side.illegal.reshape(tiles, ROWS, CHUNKS, n // 2), axis=-1) for side in sides)
        bad[:] = np.count_nonzero(left[:, :, None] | right[:, None], axis=(1, 2, 3))  # of tile, i, j, chunk
    illegal[:] = bad > 0
    operations = tiles * ROWS * COLUMNS * CHUNKS
    return operations, n * operations, n * operations, overflows, int(total(bad)), operations // EDPS


@kernel
def _multiply_by_tables(  # type: ignore[no-untyped-def]
    a, b, a_bias, b_bias, a_entries, b_entries, c, saturate, d, overflow, some
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
                        word, upper = split(product, shift)
                        low += word
                        high += upper
                    result, over = ended(low, high, saturate)
                    flag |= over
                    overflows += over
                d[tile, place] = result
                overflow[tile, place] = flag != 0
    return overflows
