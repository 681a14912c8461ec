"""Exact sums of groups, and the accumulator of a PE and of the array over all groups of every device.

Paper: [harmonia §IV-B].
"""

from math import prod

import numpy as np

from refemu.arith import fp16_compiled
from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import inlined, kernel
from refemu.arith.kernels.groups import accumulate_groups
from refemu.units.harmonia.bfp_accumulator import M8W4, Accumulator
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import POINT


@kernel
def sum_groups(mode, a_sign, a_mag, b, b_sign, psum):
    """psum (T, M, N, G) <- the exact sum of every group; exact M8M8 sums need no nibbles.

    mode: (T, G), 0 where codes of b are INT4. a_sign, a_mag: (T, M, K); b, b_sign: (T, N, K), uint8; K elements are G
    groups, the last may be short.
    """
    for i in range(psum.shape[0]):
        for g in range(psum.shape[3]):
            start, stop = 32 * g, min(32 * g + 32, a_mag.shape[2])
            weights = np.int32(16 * (mode[i, g] == 0))
            for m in range(psum.shape[1]):
                x_sign, x = a_sign[i, m, start:stop], a_mag[i, m, start:stop]
                for n in range(psum.shape[2]):
                    psum[i, m, n, g] = group_sum(x_sign, x, b[i, n, start:stop], b_sign[i, n, start:stop], weights)


@inlined
def group_sum(a_sign, a_mag, b, b_sign, weights):
    """Sum of the products of a group. weights: 16 where codes of b are two's complement of 4 bits, else 0.

    Magnitudes of a and b have 8 bits, so 32 bits hold every sum. The compiler does not know the trip count of the loop,
    32 lanes: otherwise it would unroll the loop instead of vectorising it.
    """
    total = np.int32(0)
    for k in range(a_mag.size & 63):
        code = np.int32(b[k])
        magnitude = np.int32(code - np.int32(weights * np.int32(code >> np.int32(3))))
        minus = np.int32(np.int32(0) - np.int32(a_sign[k] ^ b_sign[k]))
        product = np.int32(np.int32(a_mag[k]) * magnitude)
        total = np.int32(total + np.int32(np.int32(product ^ minus) - minus))
    return total


def accumulate(
    device: Accumulator,
    mode: np.ndarray,
    clear: np.ndarray,
    p: np.ndarray,
    a_exp: np.ndarray,
    b_exp: np.ndarray,
    w_scale: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Value, accumulator (words of float32) and flags after every group of every device, all (..., groups)."""
    rows = (prod(p.shape[:-1]), p.shape[-1])
    of_b = np.where(mode == M8W4, 0, np.maximum(b_exp, 1)) + np.asarray(POINT, np.int32)[mode]  # as `exponent`
    power = np.ldexp(1.0, np.maximum(a_exp, 1) + of_b)
    value, acc, flags = (np.empty(rows, dtype) for dtype in (np.float32, np.float32, np.uint8))
    inputs = p, power, fp16_compiled.to_f32(w_scale.view(np.float16)), mode == M8W4, clear
    with np.errstate(all="ignore"):  # overflow, and infinity times a factor of 0
        accumulate_groups(
            *(plain(array).reshape(rows) for array in inputs),
            device.partial == "fp16",
            device.product == "fp16",
            value,
            acc,
            flags,
        )
    return tuple(array.reshape(p.shape) for array in (value.view(np.uint32), acc.view(np.uint32), flags))
