"""Matrices in another order of their elements."""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import U64

SIDE = 64  # edge of a tile of the transpose; 64 x 64 fits in L1 even with set conflicts
FOUR = 4  # words of 16 bits that are stored together


@kernel
def transpose_words(rows, out):
    """out (K, W), fours of words as uint64 <- rows (N, K) of words uint16, transposed; fours from N on stay.

    Four rows are joined element by element, which vectorises; what is left to turn is a quarter as long.
    """
    outputs, terms = rows.shape
    fours = np.zeros((SIDE // FOUR, SIDE), np.uint64)
    for n0 in range(0, outputs, SIDE):
        high = (min(SIDE, outputs - n0) + FOUR - 1) // FOUR
        for k0 in range(0, terms, SIDE):
            wide = min(SIDE, terms - k0)
            for j in range(high):
                n = n0 + FOUR * j
                joined = fours[j, :wide]
                first = rows[n, k0 : k0 + wide]
                for k in range(wide):
                    joined[k] = U64(first[k])
                for i in range(1, min(FOUR, outputs - n)):
                    row, place = rows[n + i, k0 : k0 + wide], U64(16 * i)
                    for k in range(wide):
                        joined[k] = U64(joined[k] | U64(U64(row[k]) << place))
            for k in range(wide):
                for j in range(high):
                    out[k0 + k, n0 // FOUR + j] = fours[j, k]
