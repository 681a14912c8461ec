"""Compiled twin of olive_edp.run: same arguments, same Result. Read olive_edp.py first. [olive §4.1, Fig. 6a]

Pairs are decoded by the decoder's twin; sums are exact in two words, the low 32 bits and the rest.
"""

from typing import Any

import numpy as np

from refemu.arith.integers import Overflow
from refemu.arith.jit import kernel
from refemu.units import ovp_decoder_jit
from refemu.units.olive_edp import OUTLIER, DotProductUnit, Result
from refemu.units.unit import admit

MASK = 0xFFFFFFFF


def run(a_pairs: Any, b_pairs: Any, bias_a: Any, bias_b: Any, c: Any, *,
        a: str = "int4", b: str = "int4", overflow: str = "wrap") -> Result:
    """As `olive_edp.run`."""
    device = DotProductUnit(a, b, overflow)
    left, right, *biases, start = admit(device.name, device.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    x = ovp_decoder_jit.run(left, biases[0][..., None], normal=a, outlier=OUTLIER[a])
    y = ovp_decoder_jit.run(right, biases[1][..., None], normal=b, outlier=OUTLIER[b])
    shape, n, saturate = start.shape, device.n, int(device.overflow is Overflow.SATURATE)
    d, over = np.empty(shape, np.int32), np.empty(shape, np.bool_)
    elements = [array.reshape(-1, n) for array in (x.exponent, x.base_int, y.exponent, y.base_int)]
    overflows = _dot(*elements, start.reshape(-1), saturate, d.reshape(-1), over.reshape(-1))
    illegal = np.asarray(np.any(x.illegal | y.illegal, axis=-1))
    return Result(d, over, illegal, start.size, n * start.size, n * start.size, int(overflows),
                  int(np.count_nonzero(illegal)))


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
