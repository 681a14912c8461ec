"""Compiled twin of `tables`: same names, same arguments, same words."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import tables
from refemu.arith.fp16_jit import plain
from refemu.arith.jit import kernel

__all__ = ["apply16", "take16"]


def apply16(name: str, codes: ArrayLike, mode: str = "table") -> np.ndarray:
    """`tables.apply16`; compiled for uint16 codes."""
    words = np.asarray(codes)
    if mode != "table" or words.dtype != np.uint16:
        return tables.apply16(name, words, mode)
    return take16(tables.table16(name), words)


def take16(table: np.ndarray, words: np.ndarray) -> np.ndarray:
    """table[words]; table uint16 (65536,), read-only, words uint16 of any shape. Returns uint16, same shape."""
    flat = plain(words).reshape(-1)
    out = np.empty(words.shape, np.uint16)
    whole = flat.size // 4 * 4
    fours = flat[:whole].view(np.uint64)
    _take_fours(table, fours if fours.flags.aligned else fours.copy(), out.reshape(-1)[:whole].view(np.uint64))
    out.reshape(-1)[whole:] = table[flat[whole:]]
    return out


@kernel
def _take_fours(table: np.ndarray, words: np.ndarray, out: np.ndarray) -> None:
    """Four words at a time: one load and one store for all of them, and a look-up each."""
    for i in range(words.size):
        w = np.uint64(words[i])
        first = np.uint64(table[np.int64(np.uint64(w & np.uint64(0xFFFF)))])
        second = np.uint64(table[np.int64(np.uint64(np.uint64(w >> np.uint64(16)) & np.uint64(0xFFFF)))])
        third = np.uint64(table[np.int64(np.uint64(np.uint64(w >> np.uint64(32)) & np.uint64(0xFFFF)))])
        fourth = np.uint64(table[np.int64(np.uint64(w >> np.uint64(48)))])
        low = np.uint64(first | np.uint64(second << np.uint64(16)))
        high = np.uint64(third | np.uint64(fourth << np.uint64(16)))
        out[i] = np.uint64(low | np.uint64(high << np.uint64(32)))
