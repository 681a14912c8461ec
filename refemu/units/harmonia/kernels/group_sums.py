"""Exact sums of groups of 32 products, for the compiled PE and array. [harmonia §IV-B, Fig. 13]"""

import numpy as np

from refemu.arith.jit import inlined, kernel


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
