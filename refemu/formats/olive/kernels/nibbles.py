"""Kernels that decode pairs of 4-bit integers and outliers without a table, which would cost a load per pair.

Paper: [olive §4.2, Fig. 6b]. Both codes of a byte become bytes, and every step is done for as many pairs as a vector
has bytes. Other formats, and pairs with the left code in the high half, go through `ovp_kernels_jit.decode`.
"""

import functools

import numpy as np

from refemu.arith.jit import inlined, kernel
from refemu.formats.integer import IntFormat
from refemu.formats.olive.ovp import Ovp

B = np.uint8
H = np.uint16
BLOCK = 2048  # pairs that are decoded before they are scaled: they stay in the first-level cache
LARGEST = 127  # of an outlier: a value is a signed byte


@functools.cache
def magnitudes(fmt: Ovp) -> np.ndarray | None:
    """uint8 (8,): outlier magnitudes by magnitude code, 0 first; None for a format that these kernels do not decode."""
    fits = isinstance(fmt.normal, IntFormat) and fmt.width == 4 and fmt.low_first[0] == 0
    if not fits or fmt.outlier is None or fmt.outlier.largest > LARGEST:
        return None
    return np.array([0, *fmt.outlier.magnitudes()], np.uint8)


@inlined
def _mask(condition):  # type: ignore[no-untyped-def]
    """All ones where the condition holds, else 0."""
    return B(B(0) - B(condition))


@inlined
def _chosen(mask, first, other):  # type: ignore[no-untyped-def]
    return B(B(first & mask) | B(other & B(~mask)))


@kernel
def decode(words, magnitude, out):  # type: ignore[no-untyped-def]
    """out[k] <- both values of words[k] as bytes, the left one low; returns 0 if some pair is illegal, which gives 0s.

    At most one code of a pair is an outlier's, so one magnitude is chosen of eight by its three bits.
    """
    m1, m2, m3, m4 = magnitude[1], magnitude[2], magnitude[3], magnitude[4]
    m5, m6, m7 = magnitude[5], magnitude[6], magnitude[7]
    least = B(255)  # magnitude next to an identifier: 0 is not an outlier
    for k in range(len(words)):
        left, right = B(words[k] & B(15)), B(words[k] >> B(4))
        victim1, victim2 = _mask(left == B(8)), _mask(right == B(8))
        code = _chosen(victim2, left, right)
        bit0, bit1 = _mask(B(code & B(1)) != B(0)), _mask(B(code & B(2)) != B(0))
        low = _chosen(bit1, _chosen(bit0, m3, m2), B(m1 & bit0))
        high = _chosen(bit1, _chosen(bit0, m7, m6), _chosen(bit0, m5, m4))
        size = _chosen(_mask(B(code & B(4)) != B(0)), high, low)
        least = min(least, B(size | B(~B(victim1 | victim2))))
        minus = _mask(code >= B(8))
        outlier = B(B(size ^ minus) - minus)
        normal1, normal2 = B(B(left ^ B(8)) - B(8)), B(B(right ^ B(8)) - B(8))
        value1 = B(_chosen(victim2, outlier, normal1) & B(~victim1))
        value2 = B(_chosen(victim1, outlier, normal2) & B(~victim2))
        out[k] = H(H(value1) | H(H(value2) << H(8)))
    return least


@kernel
def dequantize(words, magnitude, scale, out):  # type: ignore[no-untyped-def]
    """out (2 * len(words),) <- the values times `scale`, float32; returns what `decode` does."""
    grid = np.empty(2 * BLOCK, np.int8)
    pairs = grid.view(np.uint16)
    least = B(255)
    for first in range(0, len(words), BLOCK):
        count = min(BLOCK, len(words) - first)
        least = min(least, decode(words[first : first + count], magnitude, pairs))
        values = out[2 * first :]
        for i in range(2 * count):
            values[i] = np.float32(np.float32(grid[i]) * scale)
    return least
