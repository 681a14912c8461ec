"""Times of the lanes while their Weight Buffers fill, tile by tile, for machine.filled [kllm §IV-A, Table I].

Lane 0 stands for all. Bits are counted in parts of a bit, so that the share of the port is an integer.
"""

import numpy as np

from refemu.arith.jit import inlined, kernel

TILE_COLUMNS, TILE_ROWS, TILE_LOW, TILE_HIGH, TILE_SPARSE, TILE_CLOSES, TILE_TIMES = range(7)  # fields of a tile
LOAD, MERGED, BANK, FREE, UNSURE, COUNTED, REDUCED, WAITED, TOOK, LEVEL = range(10)  # registers
FINISH = 2  # edges for the scale and for the sum of both paths


def times(groups: np.ndarray, tiles: np.ndarray, options: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Edges at which the MACs are free after all tiles, and edges of counters, of MACs, and of waits for weights.

    Arguments are those of the kernel.
    """
    registers = np.zeros(LEVEL + 1, np.int64)
    lane_times(groups, tiles, *options, np.zeros((2, LEVEL + 1), np.int64), registers)
    free, counted, reduced, waited = registers[[FREE, COUNTED, REDUCED, WAITED]].tolist()
    return free, counted, reduced, waited


@kernel
def lane_times(groups, tiles, positions, turn, merge, together, entries, extra, width, share, space, saved, r):
    """r <- times and counts after all tiles.

    groups (G, 3): first tile, tile after the last, and how often they come. tiles (T, 7): columns, rows, first and last
    position, edges of the sparse path, whether outputs follow, and how often the tile comes. width: parts of a bit of
    one position of one column. share: parts that arrive in an edge; 0: all are there. space: parts that the buffer
    holds. saved (2, registers): for equal tiles and equal groups, which repeat as soon as their times do.
    """
    r[:] = 0
    r[TOOK] = -1
    for g in range(groups.shape[0]):
        repeated = np.int64(0)
        until, since = np.int64(0), np.int64(0)
        while repeated < groups[g, 2]:
            for t in range(groups[g, 0], groups[g, 1]):
                _tiles(tiles[t], positions, turn, merge, together, entries, extra, width, share, space, saved[1], r)
            repeated += 1
            if repeated > 1 and _same(r, saved[0], share):
                repeated += _ahead(groups[g, 2] - repeated, repeated - since, saved[0], r)
            if repeated > until:
                saved[0, :] = r
                since, until = repeated, 2 * repeated


@inlined
def _tiles(tile, positions, turn, merge, together, entries, extra, width, share, space, saved, r):
    """Equal tiles in sequence."""
    repeated = np.int64(0)
    until, since = np.int64(0), np.int64(0)
    while repeated < tile[TILE_TIMES]:
        _tile(tile, positions, turn, merge, together, entries, extra, width, share, space, r)
        repeated += 1
        if repeated > 1 and _same(r, saved, share):
            repeated += _ahead(tile[TILE_TIMES] - repeated, repeated - since, saved, r)
        if repeated > until:
            saved[:] = r
            since, until = repeated, 2 * repeated


@inlined
def _same(r, saved, share):
    """Whether all times follow the last one as they did before."""
    same = r[UNSURE] == saved[UNSURE]
    for name in (LOAD, MERGED, BANK):
        same = same and r[name] - r[FREE] == saved[name] - saved[FREE]
    if share > 0:
        same = same and r[TOOK] - r[FREE] == saved[TOOK] - saved[FREE] and r[LEVEL] == saved[LEVEL]
    return same


@inlined
def _ahead(left, period, saved, r):
    """Take as many whole periods at once as there are; return their length."""
    times = left // period
    for name in range(r.size):
        r[name] += times * (r[name] - saved[name])
    return times * period


@inlined
def _tile(tile, positions, turn, merge, together, entries, extra, width, share, space, r):
    """Count the columns of a tile, then reduce them."""
    columns, ragged = tile[TILE_COLUMNS] // together, tile[TILE_COLUMNS] % together
    length = tile[TILE_HIGH] - tile[TILE_LOW]
    slabs = max((length + positions - 1) // positions, 1)
    for _ in range(columns):
        _column(tile, slabs, positions, turn, merge, together, width, share, space, r)
    if ragged > 0:
        _column(tile, slabs, positions, turn, merge, ragged, width, share, space, r)
    r[BANK] = max(r[MERGED] + 1, r[FREE])
    span = np.int64(entries)
    if tile[TILE_CLOSES] == 1:
        span += tile[TILE_SPARSE] + FINISH + extra
    r[REDUCED] += span
    r[FREE] = r[BANK] + span


@inlined
def _turns(length, turn):
    """Counting edges of a slab."""
    return max((length + turn - 1) // turn, 1)


@inlined
def _column(tile, slabs, positions, turn, merge, together, width, share, space, r):
    """Count one column, slab after slab, all rows in each; then merge the histograms into the bank."""
    length = tile[TILE_HIGH] - tile[TILE_LOW]
    for slab in range(slabs):
        size = min(positions, length - slab * positions)
        turns = _turns(size, turn)
        _arrive(size * together * width, share, space, r)
        for _ in range(tile[TILE_ROWS]):
            last = slab == slabs - 1
            start = max(r[LOAD] + 1, r[MERGED])
            done = start + turns - 1
            r[COUNTED] += turns
            early = turns == 1 and start == r[MERGED] and r[UNSURE] == 1
            r[LOAD] = done + np.int64(early)
            if last or tile[TILE_ROWS] > 1:
                first = max(done + 1, r[BANK])
                r[MERGED] = first + merge - 1
                r[UNSURE] = np.int64(r[MERGED] == r[BANK])


@inlined
def _arrive(need, share, space, r):
    """Wait until the weights of a slab are there, and take them."""
    if share == 0:
        return
    at = max(r[LOAD], r[TOOK] + 1)
    if need > r[LEVEL]:
        at = max(at, r[TOOK] + (need - r[LEVEL] + share - 1) // share)
    level = min(r[LEVEL] + share * (at - r[TOOK] - 1), space) + share - need
    r[WAITED] += at - r[LOAD]
    r[LOAD], r[TOOK], r[LEVEL] = at, at, min(level, space)
