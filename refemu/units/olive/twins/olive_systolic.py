"""Compiled twin of olive_systolic.run: same arguments, same Result. Read olive_systolic.py first. [olive §4.3]

Every element sums over K in order, so no cycle is simulated; the cycle counters are their closed forms.
"""

from typing import Any

import numpy as np

from refemu.arith.integers import Overflow
from refemu.arith.jit import kernel
from refemu.units import ovp_decoder_jit
from refemu.units.olive_edp import OUTLIER
from refemu.units.olive_systolic import OliveSystolic, Result
from refemu.units.unit import admit

HIGH = (1 << 31) - 1
LOW = -(1 << 31)


def run(
    a_pairs: Any,
    b_pairs: Any,
    bias_a: Any,
    bias_b: Any,
    *,
    rows: int = 64,
    cols: int = 64,
    m: int = 64,
    n: int = 64,
    k: int = 64,
    a: str = "int4",
    b: str = "int4",
    overflow: str = "wrap",
) -> Result:
    """As `olive_systolic.run`."""
    array = OliveSystolic(rows, cols, m, n, k, a, b, overflow)
    left, right, *biases = admit(array.name, array.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b))
    shape, count = biases[0].shape, biases[0].size
    elements: list[np.ndarray] = []
    bad = np.zeros(count, np.bool_)
    for pairs, bias, kind, lines in ((left, biases[0], a, m), (right, biases[1], b, n)):
        decoded = ovp_decoder_jit.run(
            pairs.reshape(count, lines * k // 2), bias.reshape(count, 1), normal=kind, outlier=OUTLIER[kind]
        )
        elements += [field.reshape(count, lines, k) for field in (decoded.exponent, decoded.base_int)]
        bad |= np.any(decoded.illegal, axis=1)
    lanes = (m * n,) if m * n > 1 else ()
    d, over = np.empty((*shape, *lanes), np.int32), np.empty((*shape, *lanes), np.bool_)
    overflows = _multiply(
        *elements, int(array.overflow is Overflow.SATURATE), d.reshape(count, m * n), over.reshape(count, m * n)
    )
    tiles, macs = count * array.tiles[0] * array.tiles[1], count * m * n * k
    compute, drain = tiles * array.compute, tiles * array.rows
    decodes = count * (k // 2) * (m * array.tiles[1] + n * array.tiles[0])
    return Result(
        d,
        over,
        bad.reshape(shape),
        compute + drain,
        compute,
        drain,
        decodes,
        macs,
        compute * array.rows * array.cols - macs,
        int(overflows),
    )


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
                    acc += product * (np.int64(1) << min(shift, 40))
                    over = np.int64(acc > HIGH) + np.int64(acc < LOW)
                    wrapped = ((acc - LOW) & 0xFFFFFFFF) + LOW
                    acc = saturate * max(min(acc, HIGH), LOW) + (1 - saturate) * wrapped
                    flag |= over
                    overflows += over
                d[matrix, i * b_exp.shape[1] + j] = acc
                overflow[matrix, i * b_exp.shape[1] + j] = flag != 0
    return overflows
