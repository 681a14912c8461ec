"""Bits and elements that products on the accelerator move, by operand and load. [harmonia §IV-D]"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from refemu.arith.integers import total
from refemu.units.harmonia.harmonia_core.plan import LANES, group_edges
from refemu.units.harmonia.harmonia_core.product import Product, bands, heights


class Bits(NamedTuple):
    """Bits that pass the port of the memory, of elements and of what their groups share."""

    a: int = 0  #: of elements of A
    a_shared: int = 0  #: of what groups of A share
    b: int = 0  #: of elements of B
    b_shared: int = 0  #: of what groups of B share
    c: int = 0  #: of elements of C
    c_shared: int = 0  #: of what groups of C share

    def __mul__(self, number: int) -> "Bits":  # type: ignore[override]
        return Bits(*(number * each for each in self))


class Moved(NamedTuple):
    """Loads of a product. [harmonia §IV-D]"""

    bits: Bits  #: of all loads and stores
    elements: tuple[int, int]  #: of A and of B
    stays: np.ndarray  #: int64 (tiles,): bits of the operand that stays, -1 without one
    passing: np.ndarray  #: int64 (tiles, tiles): bits of the one that passes, -1 without one


@lru_cache(maxsize=64)
def moved(product: Product) -> Moved:
    """Count what a product moves, tile by tile, each element in its bits. [harmonia §IV-D]"""
    p = product
    rows = [(first, min(first + p.tile_m, p.rows)) for first in range(0, p.rows, p.tile_m)]
    lefts = np.arange(0, p.columns, p.tile_k)
    a = np.array([_a(p, each) for each in rows], np.int64)
    sums = np.zeros((2, 3), np.int64)
    seen = np.array([int(p.causal[last - 1]) for _, last in rows], np.int64)
    visible = seen[:, None] > (lefts if p.kind == "score" else np.zeros_like(lefts))
    if p.way == 1:
        b = _b(p, (0, p.rows))
        stays = np.where(visible.any(axis=0), _both(b), -1)
        passing = np.where(visible, _both(a)[:, None], -1).T
        sums[0] = _sums(np.count_nonzero(visible, axis=1)[:, None] * a)
        sums[1] = _sums(b[visible.any(axis=0)])
    else:
        stays = _both(a)
        passing = np.full(visible.shape, -1, np.int64)
        sums[0] = _sums(a)
        same = None if p.kind == "score" or p.low or p.keys else _b(p, (0, p.rows))
        for tile, each in enumerate(rows):
            b, some = _b(p, each) if same is None else same, visible[tile]
            passing[tile, some] = _both(b[some])
            sums[1] += _sums(b[some])
    (a_bits, a_shared, a_count), (b_bits, b_shared, b_count) = sums.tolist()
    bits = Bits(a_bits, a_shared, b_bits, b_shared, *_c(p))
    return Moved(bits, (a_count, b_count), np.ascontiguousarray(stays), np.ascontiguousarray(passing))


def _a(p: Product, rows: tuple[int, int]) -> tuple[int, int, int]:
    """Bits of a tile of A, of what its groups share, and its elements; of scores those that a row of it sees."""
    length, count = p.inner, rows[1] - rows[0]
    if p.kind != "score":
        length = min(p.inner, LANES * -(-int(p.causal[rows[1] - 1]) // LANES))
    codes, shared = p.a.of(length)
    return count * codes, count * shared, count * length


def _b(p: Product, rows: tuple[int, int]) -> np.ndarray:
    """Bits of every tile of B, of what its groups share, and elements: codes as wide as the rows see them."""
    lefts = np.arange(0, p.columns, p.tile_k)
    counts = np.minimum(p.tile_k, p.columns - lefts)
    if p.low is None and not p.keys:
        return np.multiply.outer(counts, np.array([*p.b.of(p.inner), p.inner], np.int64))
    low, some = p.low or p.b, slice(*rows)
    positions = np.arange(p.units) * (1 if p.kind == "score" else LANES)
    first = np.searchsorted(p.causal[some], positions, side="right")
    there = first < rows[1] - rows[0]
    wide = (p.demotions == 0) | (p.demotions > p.widths[some][np.minimum(first, rows[1] - rows[0] - 1)])
    if p.kind == "score":
        high, narrow = (np.array([*each.of(p.inner), p.inner], np.int64) for each in (p.b, low))
        return np.add.reduceat(np.where(wide[:, None], high, narrow) * there[:, None], lefts)
    tokens = np.minimum(LANES, p.inner - positions) * there
    codes = total(tokens * np.where(wide, p.b.bits, low.bits))
    shared = total(np.where(wide, p.b.shared, low.shared) * there)
    return np.multiply.outer(counts, np.array([codes, shared, total(tokens)], np.int64))


def _c(p: Product) -> tuple[int, int]:
    """Bits of C that are stored, and of its exponents."""
    if p.plain:
        return 16 * p.stored, 0
    if p.kind == "v":
        return (1 + p.m) * p.stored, 5 * -(-p.rows // LANES) * p.columns
    groups = p.rows * (len(group_edges(p.shape)) - 1)
    if p.kind == "score":
        last = bands(p)
        groups = int(total(heights(p) * -(-np.minimum(p.columns, p.causal[last]) // LANES)))
    return (1 + p.m) * p.stored, 5 * groups


def _both(bits: np.ndarray) -> np.ndarray:
    """Bits of elements and of what groups share, together, by tile."""
    return np.asarray(bits[:, 0] + bits[:, 1])


def _sums(bits: np.ndarray) -> list[int]:
    """Sums of columns."""
    return [int(total(column)) for column in bits.T]
