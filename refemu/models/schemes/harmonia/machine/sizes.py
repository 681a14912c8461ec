"""Sizes of products on the accelerator, formats of their elements in the memory, and bits they move.

Paper: [harmonia §III-B, §IV-D].
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from refemu.arith.integers import total
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.fdgf import FdgfController
from refemu.units.harmonia.harmonia_core import Activation, Bias, Codes, Kind, Rotation, Shape, group_edges
from refemu.units.harmonia.sub_pe import LANES


class Format(NamedTuple):
    """Bits of elements in the memory. [harmonia §III-B, §V-A]"""

    bits: int  #: of an element
    shared: int  #: of what a group shares: exponent, factor
    group: int  #: elements of a group, along the reduction

    def of(self, length: int) -> tuple[int, int]:
        """Bits of a row."""
        return self.bits * length, self.shared * -(-length // self.group)


BFP8: Format = Format(9, 5, LANES)  #: 8-bit mantissas
BFP4: Format = Format(5, 5, LANES)  #: 4-bit mantissas
INT4: Format = Format(4, 16, 128)  #: weights with a factor for 128
NEVER = int(np.iinfo(np.int64).max)  #: a cache length that no row reaches
FP16: Format = Format(16, 0, LANES)  #: not grouped


def packed(array: np.ndarray) -> bytes:
    """Pack an array of integers for a field of Product. [harmonia §III-B]"""
    return np.asarray(array, np.int64).tobytes()


def _unpacked(field: bytes, count: int, usual: int) -> np.ndarray:
    """Integers of a field; of an empty one, `count` times the usual one."""
    return np.frombuffer(field, np.int64).copy() if field else np.full(count, usual, np.int64)


@dataclass(frozen=True)
class Product:
    """A product C = A x B, M x N by N x K, by its sizes alone. [harmonia §IV-A, §IV-D]"""

    kind: Kind  #: of C
    rows: int  #: M
    inner: int  #: N
    columns: int  #: K
    a: Format = BFP8  #: of A
    b: Format = INT4  #: of an element that has its widest form
    low: Format | None = None  #: of demoted keys and values
    slots: int = 1  #: clocks of a group in its widest form
    low_slots: int = 1  #: clocks of a group of demoted ones
    m: int = 8  #: mantissa bits of C; 0: FP16
    tile_m: int = 64  #: rows of a tile
    tile_k: int = 64  #: columns of a tile
    head_dim: int = LANES  #: channels of a head of q and k
    dataflow: int = 0  #: 1 B stays, 2 A stays, 0 what FDGF chooses
    activation: Activation = "none"  #: of kinds "linear" and "final"
    rotation: Rotation = "none"  #: of q and k
    bias: Bias = "none"  #: where a bias is added
    shifted: bool = False  #: whether offsets are subtracted from keys
    tracked: int = 0  #: first rows, which choose the offsets
    codes: Codes = "sets"  #: rows that see different widths (D-harmonia-46)
    #: packed int64 (units,): cache length at which a key, or a group of values, is demoted, 0 for never; b"": none is
    falls: bytes = b""
    seen: bytes = b""  #: packed int64 (rows,), ascending: cache length whose widths a row sees; b"": all keys
    keys: bytes = b""  #: packed int64 (rows,), ascending: keys that a row may see; b"": tiles are not skipped

    @cached_property
    def way(self) -> int:
        """Dataflow (D-harmonia-31)."""
        chosen = FdgfController(self.tile_m, self.tile_k).choose(self.rows, self.inner, self.columns)
        return self.dataflow or chosen

    @property
    def units(self) -> int:
        """Keys, or groups of values, that have a width."""
        return self.columns if self.kind == "score" else self.groups

    @property
    def groups(self) -> int:
        """Groups of the reduction."""
        return -(-self.inner // LANES)

    @property
    def causal(self) -> np.ndarray:
        """Keys that every row may see, int64 (rows,)."""
        length = self.columns if self.kind == "score" else self.inner
        return _unpacked(self.keys, self.rows, length)

    @property
    def widths(self) -> np.ndarray:
        """Cache length whose widths every row sees, int64 (rows,)."""
        return _unpacked(self.seen, self.rows, NEVER)

    @property
    def demotions(self) -> np.ndarray:
        """`falls` as an array, one entry for every unit. Returns int64 (units,)."""
        return _unpacked(self.falls, self.units, 0)

    @property
    def plain(self) -> bool:
        """Whether C stays FP16."""
        return self.kind == "final" or not self.m

    @property
    def stored(self) -> int:
        """Elements of C that are stored: of scores the groups that some of 8 rows see."""
        if self.kind != "score":
            return self.rows * self.columns
        visible = np.minimum(self.columns, LANES * -(-self.causal[bands(self)] // LANES))
        return int(total(heights(self) * visible))

    @property
    def shape(self) -> Shape:
        """Parameters of the plan."""
        rest = self.dataflow, self.activation, self.rotation, self.bias, self.shifted, self.tracked
        sizes = self.kind, self.rows, self.inner, self.columns, self.tile_m, self.tile_k, self.head_dim
        return Shape(*sizes, *rest)


def heights(product: Product) -> np.ndarray:
    """Rows of every band of 8."""
    return np.diff(np.append(np.arange(0, product.rows, ROWS), product.rows))


def bands(product: Product) -> np.ndarray:
    """Last row of every 8."""
    return np.minimum(np.arange(ROWS - 1, product.rows + ROWS - 1, ROWS), product.rows - 1)


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
