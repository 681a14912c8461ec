"""Edges of a product while the external memory fills the Weight Buffers, for one row after the other or for a batch.

Paper: [kllm §IV-A, §V-A, §V-D, Table I]. Each lane has an equal share of the port. A slab of weights enters the Concat
registers at the edge at which its last bit arrives (D-kllm-66). With order "weights", the rows of a batch pass each
slab before the next one comes (D-kllm-67); with "rows", every row reads all weights again. Heads of an attention may
have lanes of their own (D-kllm-68).
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from refemu.units.declaration import decides
from refemu.units.kllm.kllm_chip import ChipSizes, Pass

Order = Literal["weights", "rows"]  #: what stays while the other passes (D-kllm-67)
Fill = Literal["stream", "slab"]  #: whether the port moves on to the next slab in one edge (D-kllm-66)


class Rows(NamedTuple):
    """Rows of A that read the same columns."""

    number: int  #: rows
    length: int  #: positions that they read
    width: int  #: columns that the last of them reads
    sparse: int  #: most positions of a column that are not counted
    times: int = 1  #: how often such rows come in sequence


@dataclass(frozen=True)
class LaneTimes:
    """Edges of a product."""

    edges: int  #: until the last output
    counters: int  #: in which the counters of lane 0 count
    macs: int  #: in which the MACs of lane 0 work
    waits: int  #: in which the Concat registers of lane 0 wait for weights
    bits: int  #: bits of weights, or keys or values, that pass the port


def at_once(rows: int, length: int, width: int, a_bits: int, entries: int, sizes: ChipSizes, order: Order) -> int:
    """Rows that pass a slab of weights while it stays: as many as buffers and MACs hold. [kllm §V-D, Table I]

    length, width: positions and columns of the longest and the widest row. a_bits: of an index of A. entries: of the
    codebook.
    """
    if order == "rows":
        return 1
    return min(rows, sizes.macs, sizes.rows_at_once(length, width, a_bits, entries))


class Plan(NamedTuple):
    """Tiles of lane 0 for the kernel."""

    groups: np.ndarray  #: int64 (G, 3): first tile, tile after the last, how often they come
    tiles: np.ndarray  #: int64 (T, 7): see the kernel
    longest: int  #: positions of the longest row
    read: int  #: positions of all columns that are read, for all heads


def tiled(rows: Sequence[Rows], sizes: ChipSizes, heads: int = 1) -> Plan:
    """Lay out the tiles of lane 0. heads: equal products at once, each on lanes of its own. [kllm §IV-A]"""
    tiles: list[tuple[int, ...]] = []
    groups = []
    for part in rows:
        first = len(tiles)
        tiles += _tiles(part, sizes, heads)
        groups.append((first, len(tiles), part.times))
    read = heads * sum(int(part.length * part.width * part.times) for part in rows)
    longest = max((part.length for part in rows), default=0)
    table, order = np.array(tiles, np.int64).reshape(-1, 7), np.array(groups, np.int64).reshape(-1, 3)
    return Plan(order, table, longest, read)


def edges(plan: Sequence[Pass], sizes: ChipSizes, entries: int, extra: int = 0) -> int:
    """Count the edges of a product until the last output, with all weights there. [kllm §IV-A]

    entries: of the codebook. extra: edges for a shift and a bias.
    """
    tiles = [(min(each.width, sizes.macs), 1, each.low, each.high, each.outliers, each.closes, 1) for each in plan]
    table, groups = np.array(tiles, np.int64).reshape(-1, 7), np.array([(0, len(plan), 1)], np.int64)
    return fed(Plan(groups, table, 0, 0), sizes, entries, 0, None, extra).edges


def fed(
    laid: Plan,
    sizes: ChipSizes,
    entries: int,
    bits: int,
    rate: Fraction | None,
    extra: int = 0,
    fill: Fill = "stream",
) -> LaneTimes:
    """Times of a product by maxima and sums. [kllm §IV-A, §V-A]

    entries: of the codebook. bits: of an index of the weights. rate: bits that the memory's port moves in an edge, for
    all lanes; None if weights are there. extra: edges for a shift and a bias. fill: whether the port may end one slab
    and begin the next in one edge.
    """
    from refemu.models.schemes.kllm.compiled import lane_times as lane_times_compiled

    apart = sizes.lane_mapping == "counter"
    merge = sizes.counters if sizes.merge == "serial" and not apart else 1
    share = Fraction(0) if rate is None else rate / sizes.lanes
    scale, step = share.denominator, share.numerator
    if fill == "slab" and step:
        scale, step = _whole(laid, sizes, bits, share)
    space = sizes.buffers["weight"] * scale
    together = sizes.counters if apart else 1
    options = sizes.positions, sizes.turn, merge, together, entries, extra, bits * scale, step, space
    free, counted, reduced, waited = lane_times_compiled.times(laid.groups, laid.tiles, options)
    return LaneTimes(free + 1 if len(laid.tiles) else 0, counted, reduced, waited, laid.read * bits)


@decides("D-kllm-66")
def _whole(laid: Plan, sizes: ChipSizes, bits: int, share: Fraction) -> tuple[int, int]:
    """Parts of a bit and share of the port if a slab begins at an edge of its own: a full slab in whole edges."""
    slab = min(laid.longest, sizes.positions) * bits
    slab *= sizes.counters if sizes.lane_mapping == "counter" else 1
    edges = -(-slab * share.denominator // share.numerator)
    return max(edges, 1), max(slab, 1)


@decides("D-kllm-67", "D-kllm-68")
def _tiles(part: Rows, sizes: ChipSizes, heads: int) -> list[tuple[int, ...]]:
    """Tiles of lane 0, which has as many columns as any lane: MACs hold every row of a column."""
    columns = max(sizes.macs // part.number, 1)
    step = sizes.positions if sizes.carry == "sums" else max(part.length, 1)
    slabs = [(low, min(low + step, part.length)) for low in range(0, max(part.length, 1), step)]
    shapes: list[tuple[int, ...]] = []
    for width, number in _widths(part.width, columns, sizes.lanes, heads):
        cuts = [(width, part.number, *cut, part.sparse, int(cut[1] == part.length)) for cut in slabs]
        shapes += [(*cut, number) for cut in cuts] if len(cuts) == 1 else [(*cut, 1) for cut in cuts] * number
    return shapes


@functools.lru_cache(maxsize=1024)
def _widths(width: int, columns: int, lanes: int, heads: int) -> list[tuple[int, int]]:
    """Columns of lane 0 in a tile, and in how many tiles: all heads' blocks of columns over all lanes, full ones first.

    The blocks of one head are as many as it has columns; the last one may have fewer.
    """
    full, rest = heads * (width // columns), width % columns
    whole = -(-full // lanes)
    partial = -(-max(heads * bool(rest) - (whole * lanes - full), 0) // lanes)
    return [(columns, whole)] * bool(whole) + [(rest, partial)] * bool(partial)
