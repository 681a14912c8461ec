"""Compiled form of olive_systolic: sums over K in order, no cycle simulated. [olive §4.3]

The cycle counters are closed forms (D-olive-39).
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.olive.kernels.pairs import decoded, reduce
from refemu.units.olive.olive_systolic import UNIT, OliveSystolic


@compiled_run(UNIT)
def run(array: OliveSystolic, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode both matrices and multiply them, operation by operation."""
    left, right, bias_a, bias_b = inputs
    d, overflow, illegal = outputs
    (m, n, k), count = (array.m, array.n, array.k), bias_a.size
    elements = []
    illegal[:] = False
    for pairs, bias, kind, lines in ((left, bias_a, array.a, m), (right, bias_b, array.b, n)):
        words = pairs.reshape(count, lines, k // 2)
        done = decoded(kind, words, bias[:, None, None])
        elements += [field.reshape(count, lines, k) for field in (done.exponent, done.base_int)]
        illegal |= np.any(done.illegal, axis=(1, 2))
    saturate = int(array.overflow == "saturate")
    overflows = _multiply(*elements, saturate, d.reshape(count, m * n), overflow.reshape(count, m * n))
    tiles, macs = count * array.tiles[0] * array.tiles[1], count * m * n * k
    compute, drain = tiles * array.compute_time, tiles * array.grid[0]
    decodes = count * (k // 2) * (m * array.tiles[1] + n * array.tiles[0])
    idle = compute * array.grid[0] * array.grid[1] - macs
    return compute + drain, compute, drain, decodes, macs, idle, overflows


@kernel
def _multiply(a_exp, a_int, b_exp, b_int, saturate, d, overflow):  # type: ignore[no-untyped-def]
    overflows = np.int64(0)
    for matrix in range(a_exp.shape[0]):
        for i in range(a_exp.shape[1]):
            for j in range(b_exp.shape[1]):
                acc, flag = np.int64(0), np.int64(0)
                for k in range(a_exp.shape[2]):
                    product = np.int64(a_int[matrix, i, k]) * np.int64(b_int[matrix, j, k])
                    shift = np.int64(a_exp[matrix, i, k]) + np.int64(b_exp[matrix, j, k])
                    # A shift of 40 has the low 32 bits, the sign and the overflow of any longer one, and fits int64.
                    acc, over = reduce(acc + product * (np.int64(1) << min(shift, 40)), saturate)
                    flag |= over
                    overflows += over
                d[matrix, i * b_exp.shape[1] + j] = acc
                overflow[matrix, i * b_exp.shape[1] + j] = flag != 0
    return overflows
