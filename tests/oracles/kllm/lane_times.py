"""Times of KLLM's PE lane [kllm §III-B, §IV-A]: slabs, columns and tiles by maxima and sums, no edge stepped.

schedule(...)                    when everything happens, from when ports are 1
timeline(tiles, merge_edges)     the same if every slab is there and every tile may go
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

NEVER = math.inf
Edge = float  #: number of an edge since reset, an integer or NEVER


class Slab(NamedTuple):
    """Edge of the load, edges of the counting turns, number of the column (or group of columns)."""

    load: int
    turns: list[Edge]
    column: int


class Column(NamedTuple):
    """Edges of the merge, number of the tile, and whether it is the last one of it."""

    merges: list[Edge]
    tile: int
    ends: bool


class Tile(NamedTuple):
    """Edges in which the bank is full, goes to the MACs, and in which the MACs finish."""

    full: Edge
    swap: Edge
    finish: Edge


class Schedule(NamedTuple):
    """All that happens; `ready` has for every slab, and one more, the first edge that may load it."""

    slabs: list[Slab]
    columns: list[Column]
    tiles: list[Tile]
    ready: list[Edge]


def schedule(
    offered: Callable[[Edge], Edge],
    shape: Callable[[int], tuple[int, int, int]],
    go: Callable[[Edge], Edge],
    span: Callable[[Edge], int],
    merge_edges: int,
    most: int,
) -> Schedule:
    """Times by maxima and sums.

    offered, go: the first edge from an edge on with that port at 1. shape: turns, last and end of the slab of a load.
    span: edges that the MACs need for the tile that they take in an edge. most: merges that fill a tile.
    """
    plan = Schedule([], [], [], [0])
    merged: Edge = 0  # last edge of the last merge
    bank: Edge = 0  # from here on the bank takes columns: the last swap
    free: Edge = 0  # from here on the MACs take a tile
    unsure = False  # the last merge ends in the edge of a swap: nobody knew an edge before
    while (load := offered(plan.ready[-1])) < NEVER:
        turns, last, end = shape(int(load))
        start = max(load + 1, merged)
        plan.slabs.append(Slab(int(load), [start + k for k in range(turns)], len(plan.columns)))
        done = start + turns - 1
        plan.ready.append(done + (turns == 1 and start == merged and unsure))
        if last:
            first = max(done + 1, bank)
            merged = first + merge_edges - 1
            unsure = merged == bank
            filled = len([column for column in plan.columns if column.tile == len(plan.tiles)]) == most - 1
            plan.columns.append(Column([first + k for k in range(merge_edges)], len(plan.tiles), bool(end or filled)))
            if plan.columns[-1].ends:
                bank = go(max(merged + 1, free))
                free = bank + (span(bank) if bank < NEVER else 0)
                plan.tiles.append(Tile(merged, bank, free))
    return plan


class Work(NamedTuple):
    """A tile for `timeline`: turns of every slab of every column, and edges of the MACs by phase."""

    columns: list[list[int]]
    reduce: int
    sparse: int = 0
    finish: int = 0  #: scale, merge, shift and bias; 0 for a tile that does not close


def timeline(tiles: Sequence[Work], merge_edges: int = 1) -> Schedule:
    """When everything happens if slabs are offered in every edge until there are no more, and `go` is always 1."""
    slabs = [
        (turns, int(s == len(column) - 1), int(s == len(column) - 1 and c == len(tile.columns) - 1))
        for tile in tiles
        for c, column in enumerate(tile.columns)
        for s, turns in enumerate(column)
    ]
    shapes, works = iter(slabs), iter(tiles)
    left = iter([*slabs, None])

    def span(_: Edge) -> int:
        work = next(works)
        return work.reduce + work.sparse + work.finish

    return schedule(
        lambda edge: NEVER if next(left) is None else edge,
        lambda _: next(shapes),
        lambda edge: edge,
        span,
        merge_edges,
        len(slabs) + 1,
    )
