"""Clocks, bits and work of whole products on the accelerator from their sizes alone, without a plan of Python tuples.

Paper: [harmonia §III-B, §IV-A, Fig. 12, §IV-D]. The clocks are those of a Timeline, event for event; the bits are those
that each element has in the memory.
"""

from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from refemu.arith.integers import total
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.fdgf import FdgfController
from refemu.units.harmonia.harmonia_core.plan import HEADS, LANES, Activation, Bias, Kind, Rotation, Shape, group_edges
from refemu.units.harmonia.harmonia_core.timeline import PARTS, PASSES, Passes, Waits
from refemu.units.harmonia.kernels import flow as kernels

Codes: TypeAlias = Literal["sets", "rows"]
PITCH = 16  #: clocks in which the columns of a tile leave
#: groups of C of a long product: the third one and later ones take the clocks of the second
MANY = 1 << 16
COUNTS = [*range(kernels.BUSY, kernels.BUSY + 8), *range(kernels.WAITS, kernels.WAITS + 4)]


class Format(NamedTuple):
    """How elements are in the memory."""

    bits: int  #: of an element
    shared: int  #: of what a group shares: exponent, factor
    group: int  #: elements of a group, along the reduction

    def of(self, length: int) -> tuple[int, int]:
        """Bits of elements, and of what their groups share, for a row of some length."""
        return self.bits * length, self.shared * -(-length // self.group)


BFP8, BFP4 = Format(9, 5, LANES), Format(5, 5, LANES)
INT4 = Format(4, 16, 128)
FP16 = Format(16, 0, LANES)


@dataclass(frozen=True, eq=False)
class Product:
    """A product C = A x B, M x N by N x K."""

    kind: Kind
    rows: int  #: M
    inner: int  #: N
    columns: int  #: K
    a: Format = BFP8
    b: Format = INT4  #: of an element that has its widest form
    low: Format | None = None  #: of demoted keys and values
    slots: int = 1  #: clocks of a group in its widest form
    low_slots: int = 1
    m: int = 8  #: mantissa bits of C; 0: FP16
    tile_m: int = 64
    tile_k: int = 64
    head_dim: int = LANES
    dataflow: int = 0  #: 1 B stays, 2 A stays, 0 what FDGF chooses
    activation: Activation = "none"
    rotation: Rotation = "none"
    bias: Bias = "none"
    shifted: bool = False  #: whether offsets are subtracted from keys
    tracked: int = 0  #: first rows, which choose the offsets
    codes: Codes = "sets"  #: rows that see different widths (D-harmonia-46)
    #: int64 (units,): cache length at which a key, or a group of values, is demoted; 0: never
    falls: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    seen: np.ndarray | None = None  #: int64 (rows,), ascending: cache length whose widths a row sees; None: all keys
    keys: np.ndarray | None = None  #: int64 (rows,), ascending: keys that a row may see; None: tiles are not skipped

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """All fields, hashable."""
        values = (getattr(self, each.name) for each in fields(self))
        return tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

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
        return np.full(self.rows, length, np.int64) if self.keys is None else self.keys

    @property
    def widths(self) -> np.ndarray:
        """Cache length whose widths every row sees, int64 (rows,)."""
        return np.full(self.rows, np.iinfo(np.int64).max, np.int64) if self.seen is None else self.seen

    @property
    def demotions(self) -> np.ndarray:
        """`falls`, with one entry for every unit."""
        return self.falls if len(self.falls) == self.units else np.zeros(self.units, np.int64)

    @property
    def plain(self) -> bool:
        """Whether C stays FP16."""
        return self.kind == "final" or not self.m

    @property
    def stored(self) -> int:
        """Elements of C that are stored: of scores the groups that some of 8 rows see."""
        if self.kind != "score":
            return self.rows * self.columns
        visible = np.minimum(self.columns, LANES * -(-self.causal[_bands(self)] // LANES))
        return int(total(_heights(self) * visible))

    @property
    def shape(self) -> Shape:
        """Parameters of the plan."""
        rest = self.dataflow, self.activation, self.rotation, self.bias, self.shifted, self.tracked
        sizes = self.kind, self.rows, self.inner, self.columns, self.tile_m, self.tile_k, self.head_dim
        return Shape(*sizes, *rest)


class Bits(NamedTuple):
    """Bits that pass the port of the memory."""

    a: int = 0
    a_shared: int = 0
    b: int = 0
    b_shared: int = 0
    c: int = 0
    c_shared: int = 0

    def __mul__(self, number: int) -> "Bits":  # type: ignore[override]
        return Bits(*(number * each for each in self))


class Moved(NamedTuple):
    """What a product loads."""

    bits: Bits
    elements: tuple[int, int]  #: of A and of B
    stays: np.ndarray  #: int64 (tiles,): bits of the operand that stays, -1 without one
    passing: np.ndarray  #: int64 (tiles, tiles): bits of the one that passes, -1 without one


@dataclass(frozen=True)
class Port:
    """Rates of the timeline."""

    per_clock: Fraction | None  #: bits of the memory in a clock; None: operands are there at once
    lanes: int = ROWS  #: values that the vector unit takes in a clock
    passes: Passes = "overlap"  #: when a pass of the array begins


@dataclass(frozen=True)
class Flow:
    """Some products on the accelerator, one after the other."""

    clock: int  #: until every part is done
    busy: dict[str, int]  #: clocks by part
    waits: Waits
    pairs: int  #: groups of a row and a column that the array multiplies
    wide: int  #: those of 8-bit mantissas


def moved(product: Product) -> Moved:
    """Loads of a product, tile by tile (D-harmonia-31), each element in its own bits."""
    p = product
    rows = [(first, min(first + p.tile_m, p.rows)) for first in range(0, p.rows, p.tile_m)]
    lefts = np.arange(0, p.columns, p.tile_k)
    a = np.array([_a(p, each) for each in rows], np.int64)
    sums = np.zeros((2, 3), np.int64)
    seen = np.array([int(p.causal[last - 1]) for _, last in rows], np.int64)
    visible = seen[:, None] > (lefts if p.kind == "score" else np.zeros_like(lefts))
    if p.way == 1:
        b = _b(p, (0, p.rows))
        stays = np.where(visible.any(axis=0), b[:, :2].sum(axis=1), -1)
        passing = np.where(visible, a[:, :2].sum(axis=1)[:, None], -1).T
        sums[0] = (np.count_nonzero(visible, axis=1)[:, None] * a).sum(axis=0)
        sums[1] = b[visible.any(axis=0)].sum(axis=0)
    else:
        stays = a[:, :2].sum(axis=1)
        passing = np.full(visible.shape, -1, np.int64)
        sums[0] = a.sum(axis=0)
        same = None if p.kind == "score" or p.low or p.keys is not None else _b(p, (0, p.rows))
        for tile, each in enumerate(rows):
            b, some = _b(p, each) if same is None else same, visible[tile]
            passing[tile, some] = b[some, :2].sum(axis=1)
            sums[1] += b[some].sum(axis=0)
    (a_bits, a_shared, a_count), (b_bits, b_shared, b_count) = sums.tolist()
    bits = Bits(a_bits, a_shared, b_bits, b_shared, *_c(p))
    return Moved(bits, (a_count, b_count), np.ascontiguousarray(stays), np.ascontiguousarray(passing))


def _a(p: Product, rows: tuple[int, int]) -> tuple[int, int, int]:
    """Bits of a tile of A, of what its groups share, and its elements; of scores those that a row of it sees."""
    length, count = p.inner, rows[1] - rows[0]
    if p.kind != "score":
        length = min(p.inner, LANES * -(-int(p.causal[rows[1] - 1]) // LANES))
    own, shared = p.a.of(length)
    return count * own, count * shared, count * length


def _b(p: Product, rows: tuple[int, int]) -> np.ndarray:
    """Bits of every tile of B, of what its groups share, and elements: codes as wide as the rows see them."""
    lefts = np.arange(0, p.columns, p.tile_k)
    counts = np.minimum(p.tile_k, p.columns - lefts)
    if p.low is None and p.keys is None:
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
    own = total(tokens * np.where(wide, p.b.bits, low.bits))
    shared = total(np.where(wide, p.b.shared, low.shared) * there)
    return np.multiply.outer(counts, np.array([own, shared, total(tokens)], np.int64))


def _c(p: Product) -> tuple[int, int]:
    """Bits of C that are stored, and of its exponents."""
    if p.plain:
        return 16 * p.stored, 0
    if p.kind == "v":
        return (1 + p.m) * p.stored, 5 * -(-p.rows // LANES) * p.columns
    groups = p.rows * (len(group_edges(p.shape)) - 1)
    if p.kind == "score":
        last = _bands(p)
        groups = int(total(_heights(p) * -(-np.minimum(p.columns, p.causal[last]) // LANES)))
    return (1 + p.m) * p.stored, 5 * groups


def _heights(p: Product) -> np.ndarray:
    """Rows of every band of 8."""
    return np.diff(np.append(np.arange(0, p.rows, ROWS), p.rows))


def _bands(p: Product) -> np.ndarray:
    """Last row of every 8."""
    return np.minimum(np.arange(ROWS - 1, p.rows + ROWS - 1, ROWS), p.rows - 1)


def passes(p: Product) -> tuple[np.ndarray, int, int]:
    """Passes of a tile of every band: int64 (bands or 1, 5) as the kernel takes them; pairs, and wide ones.

    For values, whose widths do not depend on the column; for scores of one width.
    """
    if p.kind == "score" or (p.low is None and p.keys is None):
        slots = p.groups * p.slots
        return np.array([[1, slots, max(slots, PITCH), slots, slots]], np.int64), 0, 0
    low = p.low_slots if p.low else p.slots
    groups = np.minimum(p.groups, -(-p.causal[_bands(p)] // LANES))
    found = np.zeros((len(groups), 5), np.int64)
    pairs = wide_pairs = 0
    for band, visible in enumerate(groups.tolist()):
        rows = slice(band * ROWS, min((band + 1) * ROWS, p.rows))
        falls = p.demotions[:visible]
        wide = (falls == 0) | (falls > p.widths[rows, None])
        if p.codes == "rows":
            wide = np.repeat(wide.any(axis=0, keepdims=True), len(wide), axis=0)
        count = np.count_nonzero(wide, axis=1)
        sets = count[np.append(True, count[1:] != count[:-1])]
        slots = visible * low + sets * (p.slots - low)
        found[band] = len(slots), total(slots), total(np.maximum(slots, PITCH)), slots[0], slots[-1]
        pairs += len(wide) * visible * p.columns
        wide_pairs += int(total(count)) * p.columns
    return found, pairs, wide_pairs


def timed(product: Product, port: Port, times: int = 1) -> Flow:
    """Products of one size in sequence.

    Parameters
    ----------
    product : Product
        Sizes of one.
    port : Port
        Rates.
    times : int
        Number of products.

    Returns
    -------
    Flow
        Clocks and work of all of them.

    References
    ----------
    [harmonia §IV-A, Fig. 12, §IV-C]
    """
    run, clocks = _Run(product, port), [0]
    states = [run.now.copy()]
    least = 2 if run.down * len(run.edges) > MANY else 4
    while len(clocks) <= times:
        run.once()
        clocks.append(run.clock)
        states.append(run.now.copy())
        if len(clocks) > least and (least == 2 or _steady(clocks[-4:], states[-4:])):
            break
    left = times - len(clocks) + 1
    last = states[-1] + left * (states[-1] - states[-2])
    names = [*PARTS, "store"]
    busy = dict(zip(names, last[kernels.BUSY : kernels.BUSY + len(names)].tolist(), strict=True))
    waits = Waits(*last[kernels.WAITS : kernels.WAITS + 4].tolist())
    pairs, wide = (times * each for each in run.pairs)
    if not pairs:
        pairs, wide = int(last[kernels.PAIRS]), int(last[kernels.WIDE_PAIRS])
    wide = pairs if product.low is None and product.slots > 1 else wide
    return Flow(clocks[-1] + left * (clocks[-1] - clocks[-2]), busy, waits, pairs, wide)


def _steady(clocks: list[int], states: list[np.ndarray]) -> bool:
    """Whether the last products took the same clocks each, and waited as long."""
    steps, counts = np.diff(clocks), np.diff(np.stack(states)[:, COUNTS], axis=0)
    return bool(np.all(steps == steps[0]) and np.all(counts == counts[0]))


class _Run:
    """Arrays of the kernel for one size."""

    def __init__(self, p: Product, port: Port) -> None:
        self.loads = moved(p)
        self.bands, pairs, wide = passes(p)
        self.pairs = pairs, wide
        self.p, shape = p, p.shape
        edges = group_edges(shape)
        heads = self._heads(p)
        self.unit = gcd(*(edges[1:-1] or [32]), *(heads[1:-1] or [32]), 16 if p.kind == "v" else 32)
        self.edges, self.heads = np.array(edges, np.int64), np.array(heads, np.int64)
        falls = np.where(p.demotions > 0, p.demotions, np.iinfo(np.int64).max)
        starts = np.arange(0, len(falls), PITCH)
        self.tiles = np.stack([np.minimum.reduceat(falls, starts), np.maximum.reduceat(falls, starts)], axis=1)
        self.down, across = -(-p.rows // ROWS), -(-p.columns // self.unit)
        self.times = np.zeros((2, self.down, across), np.int64)
        self.now = np.zeros(kernels.NOW, np.int64)
        self.sizes = self._sizes(p, port)
        self.reads, self.writes = np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)

    @staticmethod
    def _heads(p: Product) -> list[int]:
        if p.kind == "score":
            return [0, p.columns]
        width = p.head_dim * (p.rotation != "none") if p.kind in HEADS else LANES * (p.activation != "none")
        return [*range(0, p.columns, width), p.columns] if width else [0]

    def _sizes(self, p: Product, port: Port) -> np.ndarray:
        inverse = Fraction(0) if port.per_clock is None else 1 / port.per_clock
        named = {
            "v": p.kind == "v",
            "score": p.kind == "score",
            "final": p.plain,
            "shifted": p.shifted,
            "direct": len(self.heads) == 1 and not p.shifted,
            "bias": {"none": 0, "after": 1, "accumulator": 2}[p.bias],
            "rows": p.rows,
            "columns": p.columns,
            "tile_m": p.tile_m,
            "tile_k": p.tile_k,
            "dataflow": p.way,
            "unit": self.unit,
            "tracked": p.tracked,
            "lanes": port.lanes,
            "passes": PASSES.index(port.passes),
            "clocks": inverse.numerator,
            "bits": inverse.denominator,
            "groups": p.groups,
            "narrow": p.low_slots if p.low else p.slots,
            "wide": p.slots,
            "mixed": p.low is not None,
            "together": p.codes == "rows",
            "code": 16 if p.plain else 1 + p.m,
        }
        return np.array([int(named[name]) for name in kernels.SIZES], np.int64)

    def once(self) -> None:
        """Place one more product."""
        p, now = self.p, self.now
        widths, heads = np.diff(self.edges), np.diff(self.heads)
        missing = np.tile(widths, (self.down, 1))
        part = np.tile(heads, (self.down, 1))
        if p.kind == "score":
            part[:, 0] = np.minimum(p.columns, LANES * -(-p.causal[_bands(p)] // LANES))
        reads = np.zeros((int(np.count_nonzero(self.loads.passing >= 0)) + len(self.loads.stays), 2), np.int64)
        groups = self.down * len(widths)
        self.reads, self.writes = (
            np.concatenate([self.reads, reads]),
            np.concatenate([self.writes, np.zeros((groups, 2), np.int64)]),
        )
        kernels.flow(
            self.sizes,
            self.edges,
            self.heads,
            p.demotions,
            self.tiles,
            p.widths,
            p.causal,
            self.bands,
            self.loads.stays,
            self.loads.passing,
            self.times[0],
            self.times[1],
            missing,
            part,
            np.zeros(5, np.int64),
            now,
            self.reads,
            self.writes,
        )
        self.reads, self.writes = self.reads[: now[kernels.READS]], self.writes[: now[kernels.WRITES]]

    @property
    def clock(self) -> int:
        """Clocks until all is done and written."""
        return max(int(self.now[kernels.DONE]), int(kernels.written(self.reads, self.writes, self.now)))
