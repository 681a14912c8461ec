"""Sizes of products on the accelerator, and the formats of their elements in the memory. [harmonia §III-B, §IV-D]"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from refemu.arith.integers import total
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.fdgf import FdgfController
from refemu.units.harmonia.harmonia_core.gemm import Codes
from refemu.units.harmonia.harmonia_core.plan import LANES, Activation, Bias, Kind, Rotation, Shape


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
FP16: Format = Format(16, 0, LANES)  #: not grouped


def packed(array: np.ndarray) -> bytes:
    """Pack an array of integers for a field of Product. [harmonia §III-B]"""
    return np.asarray(array, np.int64).tobytes()


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
        return np.frombuffer(self.keys, np.int64).copy() if self.keys else np.full(self.rows, length, np.int64)

    @property
    def widths(self) -> np.ndarray:
        """Cache length whose widths every row sees, int64 (rows,)."""
        return (
            np.frombuffer(self.seen, np.int64).copy()
            if self.seen
            else np.full(self.rows, np.iinfo(np.int64).max, np.int64)
        )

    @property
    def demotions(self) -> np.ndarray:
        """`falls` as an array, one entry for every unit. Returns int64 (units,)."""
        return np.frombuffer(self.falls, np.int64).copy() if self.falls else np.zeros(self.units, np.int64)

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
