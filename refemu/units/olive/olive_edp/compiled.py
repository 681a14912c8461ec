"""Compiled form of olive_edp: compiled ovp_decoder decodes pairs, sums are exact in two words. [olive §4.1, Fig. 6a]

The words of a sum are its low 32 bits and its high bits.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive import ovp_decoder
from refemu.units.olive.olive_edp import OPERANDS, UNIT, DotProductUnit, Operand

MASK = 0xFFFFFFFF


@compiled_run(UNIT)
def run(device: DotProductUnit, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode all operands, then multiply and add, operation by operation."""
    *operands, c = inputs
    d, overflow, illegal, *registers = outputs
    bad = [
        _decoded(kind, pairs, bias, *registers[2 * at : 2 * at + 2])
        for at, (kind, pairs, bias) in enumerate(zip((device.a, device.b), operands[:2], operands[2:], strict=True))
    ]
    illegal[:] = bad[0] | bad[1]
    overflows = _dot(*registers[:4], c, int(device.overflow == "saturate"), d, overflow, *registers[4:])
    macs = device.n * c.size
    return c.size, macs, macs, overflows, int(np.count_nonzero(illegal))


def _decoded(
    kind: Operand, pairs: np.ndarray, bias: np.ndarray, exponent: np.ndarray, integer: np.ndarray
) -> np.ndarray:
    """Fill the elements of one operand from pairs (rows, pairs); return which rows hold an illegal pair."""
    normal, outlier = OPERANDS[kind]
    decoded = ovp_decoder.UNIT.run_compiled(pairs, bias[:, None], normal=normal, outlier=outlier)
    exponent[:], integer[:] = (array.reshape(exponent.shape) for array in (decoded.exponent, decoded.base_int))
    return np.asarray(np.any(decoded.illegal, axis=-1))


@kernel
def _dot(  # type: ignore[no-untyped-def]
    a_exp, a_int, b_exp, b_int, c, saturate, d, overflow, shifts, products, shifted, above
):
    overflows = np.int64(0)
    for i in range(a_exp.shape[0]):
        low, high = np.int64(c[i]), np.int64(0)
        for k in range(a_exp.shape[1]):
            product = np.int64(a_int[i, k]) * np.int64(b_int[i, k])
            shift = np.int64(a_exp[i, k]) + np.int64(b_exp[i, k])
            # |product| <= 2^14, and <= 63^2 where shift >= 32, as both are outliers: all words stay below 2^50.
            beyond = np.int64(shift >= 32)
            term = (product << min(shift, 31)) * (1 - beyond)
            word = ((term + (1 << 31)) & MASK) - (1 << 31)
            upper = ((term - word) >> 32) + (product << max(shift - 32, 0)) * beyond
            shifts[i, k], products[i, k], shifted[i, k], above[i, k] = shift, product, word, upper
            low += word
            high += upper
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
