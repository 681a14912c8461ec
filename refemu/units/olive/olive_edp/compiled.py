"""Compiled form of olive_edp: compiled ovp_decoder decodes pairs, sums are exact in two words. [olive §4.1, Fig. 6a]

The words of a sum are its low 32 bits and its high bits.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.kernels.pairs import decoded, ended, split
from refemu.units.olive.olive_edp import UNIT, DotProductUnit


@compiled_run(UNIT)
def run(device: DotProductUnit, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode all operands, then multiply and add, operation by operation."""
    *operands, c = inputs
    d, overflow, illegal, *registers = outputs
    illegal[:] = False
    for at, kind in enumerate((device.a, device.b)):
        done = decoded(kind, operands[at], operands[2 + at][:, None])
        for register, values in zip(registers[2 * at : 2 * at + 2], (done.exponent, done.base_int), strict=True):
            register[:] = values.reshape(register.shape)
        illegal |= done.illegal.any(axis=-1)
    overflows = _dot(*registers[:4], c, int(device.overflow == "saturate"), d, overflow, *registers[4:])
    macs = device.n * c.size
    return c.size, macs, macs, overflows, int(np.count_nonzero(illegal))


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
            word, upper = split(product, shift)
            shifts[i, k], products[i, k], shifted[i, k], above[i, k] = shift, product, word, upper
            low += word
            high += upper
        d[i], over = ended(low, high, saturate)
        overflow[i] = over != 0
        overflows += over
    return overflows
