"""Clocks of whole products on the accelerator from their sizes alone, without a plan of Python tuples.

Paper: [harmonia §IV-A, Fig. 12, §IV-C, §IV-D]. The clocks are those of a Timeline, event for event;
clocks of tiles that repeat are counted once.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from refemu.models.schemes.harmonia.machine.sizes import NEVER, Product, bands, moved
from refemu.units.harmonia.bfp_pe_array import ROWS
from refemu.units.harmonia.harmonia_core import HEADS, PARTS, PASSES, Passes, Waits, group_edges
from refemu.units.harmonia.sub_pe import LANES

if TYPE_CHECKING:
    from refemu.models.schemes.harmonia.compiled.flow import Plan
from collections.abc import Sequence

PITCH = 16  #: clocks in which the columns of a tile leave
#: groups of C of a long product: the third one and later ones take the clocks of the second
MANY = 1 << 16


@dataclass(frozen=True)
class Port:
    """Rates of the timeline. [harmonia §V-A]"""

    per_clock: Fraction | None  #: bits of the memory in a clock; None: operands are there at once
    lanes: int = ROWS  #: values that the vector unit takes in a clock
    passes: Passes = "overlap"  #: when a pass of the array begins


@dataclass(frozen=True)
class Flow:
    """Some products on the accelerator, one after the other."""

    clock: int  #: until every part is done
    busy: dict[str, int]  #: clocks by part
    waits: Waits  #: clocks in which a part waits
    pairs: int  #: groups of a row and a column that the array multiplies
    wide: int  #: those of 8-bit mantissas


@lru_cache(maxsize=16)
def passes(p: Product) -> tuple[np.ndarray, int, int]:
    """Passes of a tile of every band: int64 (bands or 1, 5) as the kernel takes them; pairs, and wide ones.

    For values, whose widths do not depend on the column; for scores of one width.
    """
    if p.kind == "score" or (p.low is None and not p.keys):
        slots = p.groups * p.slots
        return np.array([[1, slots, max(slots, PITCH), slots, slots]], np.int64), 0, 0
    low = p.low_slots if p.low else p.slots
    groups = np.minimum(p.groups, -(-p.causal[bands(p)] // LANES))
    listed = np.zeros((len(groups), 5), np.int64)
    demotions, widths, pairs, wide_pairs = p.demotions, p.widths, 0, 0
    for band, visible in enumerate(groups.tolist()):
        rows = slice(band * ROWS, min((band + 1) * ROWS, p.rows))
        falls = demotions[:visible]
        wide = (falls == 0) | (falls > widths[rows, None])
        if p.codes == "rows":
            wide = np.repeat(wide.any(axis=0, keepdims=True), len(wide), axis=0)
        count: list[int] = np.count_nonzero(wide, axis=1).tolist()
        sets = [number for number, before in zip(count, [-1, *count], strict=False) if number != before]
        clocks: list[int] = [visible * low + number * (p.slots - low) for number in sets]
        pitch: list[int] = [max(each, PITCH) for each in clocks]
        listed[band] = len(clocks), sum(clocks), sum(pitch), clocks[0], clocks[-1]
        pairs += len(count) * visible * p.columns
        wide_pairs += sum(count) * p.columns
    return listed, pairs, wide_pairs


def timed(product: Product, port: Port, times: int = 1) -> Flow:
    """Products of one size in sequence. [harmonia §IV-A, Fig. 12, §IV-C]"""
    from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

    run, clocks = _Run(product, port), [0]
    states = [run.now.copy()]
    least = 2 if run.down * len(run.plan.edges) > MANY else 4
    while len(clocks) <= times:
        run.once()
        clocks.append(run.clock)
        states.append(run.now.copy())
        if len(clocks) > least and (least == 2 or _steady(clocks[-4:], states[-4:])):
            break
    left = times - len(clocks) + 1
    last = states[-1] + left * (states[-1] - states[-2])
    names = [*PARTS, "store"]
    busy = dict(zip(names, last[flow_compiled.BUSY : flow_compiled.BUSY + len(names)].tolist(), strict=True))
    waits = Waits(*last[flow_compiled.WAITS : flow_compiled.WAITS + 4].tolist())
    pairs, wide = (times * each for each in run.pairs)
    if not pairs:
        pairs, wide = int(last[flow_compiled.PAIRS]), int(last[flow_compiled.WIDE_PAIRS])
    wide = pairs if product.low is None and product.slots > 1 else wide
    return Flow(clocks[-1] + left * (clocks[-1] - clocks[-2]), busy, waits, pairs, wide)


def _steady(clocks: list[int], states: list[np.ndarray]) -> bool:
    """Whether the last products took the same clocks each, and waited as long."""
    from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

    counted = [*range(flow_compiled.BUSY, flow_compiled.BUSY + 8), *range(flow_compiled.WAITS, flow_compiled.WAITS + 4)]
    steps, counts = np.diff(clocks), np.diff(np.stack(states)[:, counted], axis=0)
    return bool(np.all(steps == steps[0]) and np.all(counts == counts[0]))


class _Run:
    """Arrays of the kernel for one size."""

    def __init__(self, p: Product, port: Port) -> None:
        from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

        listed, *self.pairs = passes(p)
        self.p, self.plan = p, _plan(p, port, listed)
        self.down, across = -(-p.rows // ROWS), -(-p.columns // self.plan.unit)
        self.times = np.zeros((2, self.down, across), np.int64)
        self.now = np.zeros(flow_compiled.NOW, np.int64)
        self.reads, self.writes = np.zeros((0, 2), np.int64), np.zeros((0, 2), np.int64)

    def once(self) -> None:
        """Place one more product."""
        from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

        p, plan = self.p, self.plan
        widths, heads = np.diff(plan.edges), np.diff(plan.heads)
        missing, part = (np.tile(each, (self.down, 1)) for each in (widths, heads))
        if p.kind == "score":
            part[:, 0] = np.minimum(p.columns, LANES * -(-p.causal[bands(p)] // LANES))
        loads, stores = int(np.count_nonzero(plan.passing >= 0)) + len(plan.stays), self.down * len(widths)
        self.reads = _enlarged(self.reads, int(self.now[flow_compiled.READS]), loads)
        self.writes = _enlarged(self.writes, int(self.now[flow_compiled.WRITES]), stores)
        work = np.zeros(5, np.int64)
        registers = flow_compiled.Registers(
            self.times[0], self.times[1], missing, part, work, self.now, self.reads, self.writes
        )
        flow_compiled.flow(plan, registers)

    @property
    def clock(self) -> int:
        """Clocks until all is done and written."""
        from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

        return max(int(self.now[flow_compiled.DONE]), int(flow_compiled.written(self.reads, self.writes, self.now)))


def _enlarged(rows: np.ndarray, used: int, more: int) -> np.ndarray:
    """Rows of which some are used, with space for more."""
    if used + more <= len(rows):
        return rows
    larger = np.empty((2 * used + more, 2), np.int64)
    larger[:used] = rows[:used]
    return larger


def _heads(p: Product) -> list[int]:
    if p.kind == "score":
        return [0, p.columns]
    width = p.head_dim * (p.rotation != "none") if p.kind in HEADS else LANES * (p.activation != "none")
    return [*range(0, p.columns, width), p.columns] if width else [0]


def _plan(p: Product, port: Port, listed: np.ndarray) -> "Plan":
    """Parameters of the kernel. listed: as `passes` gives them."""
    from refemu.models.schemes.harmonia.compiled import flow as flow_compiled

    edges, heads, loads = group_edges(p.shape), _heads(p), moved(p)
    inverse = Fraction(0) if port.per_clock is None else 1 / port.per_clock
    falls = np.where(p.demotions > 0, p.demotions, NEVER)
    starts, period = np.arange(0, len(falls), PITCH), periodic(p, edges, heads)
    return flow_compiled.Plan(
        v=int(p.kind == "v"),
        score=int(p.kind == "score"),
        final=int(p.plain),
        shifted=int(p.shifted),
        direct=int(len(heads) == 1 and not p.shifted),
        bias={"none": 0, "after": 1, "accumulator": 2}[p.bias],
        rows=p.rows,
        columns=p.columns,
        tile_m=p.tile_m,
        tile_k=p.tile_k,
        dataflow=p.way,
        unit=gcd(*(edges[1:-1] or [32]), *(heads[1:-1] or [32]), 16 if p.kind == "v" else 32),
        tracked=p.tracked,
        lanes=port.lanes,
        passes=PASSES.index(port.passes),
        clocks=inverse.numerator,
        bits=inverse.denominator,
        groups=p.groups,
        narrow=p.low_slots if p.low else p.slots,
        wide=p.slots,
        mixed=int(p.low is not None),
        together=int(p.codes == "rows"),
        code=16 if p.plain else 1 + p.m,
        edges=np.array(edges, np.int64),
        heads=np.array(heads, np.int64),
        falls=p.demotions,
        tiles=np.stack([np.minimum.reduceat(falls, starts), np.maximum.reduceat(falls, starts)], axis=1),
        seen=p.widths,
        keys=p.causal,
        bands=listed,
        stays=loads.stays,
        passing=loads.passing,
        alike=alike(p, loads.passing, period > 0 and len(listed) == 1),
        period=period,
    )


PITCH = 16  #: keys of a tile of the array
WIDEST = 512  #: most keys of a tile whose widths a class of 64 bits can list


def periodic(p: Product, edges: Sequence[int], heads: Sequence[int]) -> int:
    """Tiles after which groups and heads end at the same places of a tile again; 0 if they never do."""
    if p.tile_m % LANES or p.tile_k % LANES or (p.kind != "v" and any(edge % LANES for edge in edges[1:-1])):
        return 0
    width = heads[1] if len(heads) > 2 else p.tile_k
    if p.way == 1:
        return 1
    if p.tile_k % width == 0:
        return 1
    return width // p.tile_k if width % p.tile_k == 0 else 0


def alike(p: Product, passing: np.ndarray, same: bool) -> np.ndarray:
    """Count tiles from each one on that differ in their place alone: int64 (tiles that stay, tiles that pass).

    passing: their bits, -1 without one. same: whether all bands of rows take the same passes. 0: the clocks of a tile
    depend on its place: it is cut off, ends rows of scores or keys, or has keys that some of its rows see in 8 bits.
    """
    kinds = np.where(passing >= 0, 1, 0) if same else np.zeros(passing.shape, np.int64)
    length, tile = (p.rows, p.tile_m) if p.way == 1 else (p.columns, p.tile_k)
    kinds[:, length // tile :] = 0
    if p.shifted and p.way == 1:  # the last columns complete rows of keys, which wait for the offsets
        kinds[-1] = 0
    if p.kind == "score" and same:
        classes = _of_scores(p)
        kinds *= classes.T if p.way == 1 else classes
    again = (kinds[:, 1:] == kinds[:, :-1]) & (passing[:, 1:] == passing[:, :-1]) & (kinds[:, 1:] > 0)
    runs = np.where(kinds > 0, 1, 0)
    for place in reversed(range(again.shape[1])):
        runs[:, place] += again[:, place] * runs[:, place + 1]
    return np.ascontiguousarray(runs)


def _of_scores(p: Product) -> np.ndarray:
    """Class of every tile of scores, int64 (tiles of rows, tiles of columns); 0: it depends on its place."""
    tops = np.arange(0, p.rows, p.tile_m)
    lasts = np.minimum(tops + p.tile_m, p.rows) - 1
    rights = np.minimum(np.arange(0, p.columns, p.tile_k) + p.tile_k, p.columns)
    keys = p.causal[tops]
    whole = (keys >= p.columns)[:, None]
    inside = (LANES * (keys // LANES)[:, None] > rights) | (whole & (rights < p.columns))
    ends = whole & (rights == p.columns)
    classes = inside + 2 * ends
    if p.low is None:
        return np.asarray(classes, np.int64)
    if p.tile_k > WIDEST:
        return np.zeros(classes.shape, np.int64)
    falls = np.where(p.demotions > 0, p.demotions, NEVER)
    starts = np.arange(0, p.columns, PITCH)
    narrow = np.maximum.reduceat(falls, starts) <= p.widths[tops][:, None]
    wide = np.minimum.reduceat(falls, starts) > p.widths[lasts][:, None]
    codes = np.where(narrow, 1, np.where(wide, 2, 0))
    for first in range(p.tile_k // PITCH):
        part = codes[:, first :: p.tile_k // PITCH]
        missing = classes.shape[1] - part.shape[1]
        part = np.pad(part, ((0, 0), (0, missing)), constant_values=1)
        classes = np.where(part > 0, 3 * classes + part * (classes > 0), 0)
    return np.asarray(classes, np.int64)
