"""Compiled twin of olive_edp: pairs from a table of all words, sums exact in 64 bits. [olive §4.1, Fig. 6a]

At biases too large for either, the twin of ovp_decoder decodes the pairs, and a sum is exact in two words: the low 32
bits and the rest.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.olive.kernels.pairs import elements, fits, reduce, table
from refemu.units.olive.olive_edp import OUTLIER, UNIT, DotProductUnit
from refemu.units.olive.twins import ovp_decoder as ovp_decoder_jit

MASK = 0xFFFFFFFF


@twin(UNIT)
def run(device: DotProductUnit, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode, multiply and add, operation by operation."""
    *operands, c = inputs
    d, overflow, illegal = outputs
    (a_pairs, b_pairs, bias_a, bias_b), kinds = operands, (device.a, device.b)
    saturate = int(device.overflow == "saturate")
    if fits(device.a, bias_a, device.b, bias_b, device.n):
        tables = [table(kind) for kind in kinds]
        overflows = _dot_by_tables(*operands, *tables, c, saturate, *outputs)
    else:
        decoded = [
            ovp_decoder_jit.run(pairs, bias[:, None], normal=kind, outlier=OUTLIER[kind])
            for pairs, bias, kind in zip((a_pairs, b_pairs), (bias_a, bias_b), kinds, strict=True)
        ]
        fields = [array.reshape(-1, device.n) for side in decoded for array in (side.exponent, side.base_int)]
        overflows = _dot(*fields, c, saturate, d, overflow)
        illegal[:] = np.any(decoded[0].illegal | decoded[1].illegal, axis=-1)
    macs = device.n * c.size
    return c.size, macs, macs, overflows, int(np.count_nonzero(illegal))


@kernel
def _dot_by_tables(  # type: ignore[no-untyped-def]
    a, b, a_bias, b_bias, a_entries, b_entries, c, saturate, d, overflow, illegal
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
