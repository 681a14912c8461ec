"""Product of one vector of pairs with rows of packed 4-bit integer pairs, whose codes are widened in registers.

Paper: [olive §3.4, §4]. Sums of integers are exact in any order. Every byte is read as two integers of 4 bits; the few
pairs that hold an outlier, whose places are listed, are corrected afterwards.
"""

import functools

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.integer import IntFormat
from refemu.formats.olive.ovp import Ovp

NIBBLE, SIGN, FOUR = np.int16(15), np.int16(8), np.int16(4)
SHORT = (1 << 15) - 1  #: largest value that a product takes


@kernel
def pair_products(pairs, values, rows, starts, places, fixes, rescale, sums, out, first, last):  # type: ignore[no-untyped-def]
    """sums[n] <- the exact product of `pairs` and rows[n], out[n] <- fl32(fl32(sum) * rescale[n]); rows `first` to
    `last`.

    pairs (P,) uint8: words of the vector; values int16 (256, 2): its grid values by word, low code first. rows (N, P)
    uint8: words of pairs of 4-bit integers, low code first in `values`; places[starts[n]:starts[n + 1]] int32: their
    pairs with an outlier; fixes int16 (256, 2): what reading a word as two integers leaves out. sums int32 (N,),
    rescale and out float32 (N,).
    """
    low, high = np.empty(pairs.size, np.int16), np.empty(pairs.size, np.int16)
    for k in range(pairs.size):
        low[k], high[k] = values[pairs[k], 0], values[pairs[k], 1]
    for n in range(first, last):
        row, total = rows[n], np.int32(0)
        for k in range(row.size):
            word = np.int16(row[k])
            even = np.int16(np.int16(np.int16(word & NIBBLE) ^ SIGN) - SIGN)
            odd = np.int16(np.int16(np.int16(word >> FOUR) ^ SIGN) - SIGN)
            total = np.int32(total + np.int32(np.int32(even) * np.int32(low[k])))
            total = np.int32(total + np.int32(np.int32(odd) * np.int32(high[k])))
        for j in range(starts[n], starts[n + 1]):
            k = places[j]
            total = np.int32(total + np.int32(np.int32(fixes[row[k], 0]) * np.int32(low[k])))
            total = np.int32(total + np.int32(np.int32(fixes[row[k], 1]) * np.int32(high[k])))
        sums[n] = total
        out[n] = np.float32(np.float32(total) * rescale[n])


def suits(fmt: Ovp) -> bool:
    """Whether rows of `fmt` are pairs of 4-bit integers, which the kernel reads."""
    return isinstance(fmt.normal, IntFormat) and fmt.width == 4


@functools.cache
def pair_values(fmt: Ovp) -> np.ndarray | None:
    """int16 (256, 2): grid values of every word, low code first, 0 if illegal; None if 16 bits do not hold them."""
    if fmt.width != 4:
        return None
    grid = fmt.decode(fmt.split(np.arange(1 << 8)), strict=False)[:, fmt.low_first]
    return np.ascontiguousarray(grid.astype(np.int16)) if int(np.abs(grid).max()) <= SHORT else None


@functools.cache
def fixes(fmt: Ovp) -> np.ndarray:
    """int16 (256, 2): grid values of every word less those of its codes as integers; `fmt` as in `suits`."""
    words, values = np.arange(1 << 8), pair_values(fmt)
    assert values is not None
    plain = np.stack([words & 15, words >> 4], 1)
    return values - ((plain ^ 8) - 8).astype(np.int16)


def outlier_places(words: np.ndarray, fmt: Ovp) -> tuple[np.ndarray, np.ndarray]:
    """Starts int64 (N + 1,) and places int32 of the pairs of `words` (N, P) that `fixes` changes, row by row."""
    changed = np.asarray(fixes(fmt).any(axis=1))[words]
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(changed, axis=1))])
    return starts.astype(np.int64), np.nonzero(changed)[1].astype(np.int32)
