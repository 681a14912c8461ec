"""Clocks of one product on Harmonia's accelerator, for machine.flow: the events of its plan as they are placed by
harmonia_core.timeline. [harmonia §IV-A, Fig. 12, §IV-C, §IV-D]
"""

from typing import NamedTuple

import numpy as np

from refemu.arith.jit import inlined, kernel


class Plan(NamedTuple):
    """A product: integers, flags as 0 or 1, and int64 arrays."""

    v: int  # whether C is grouped along its rows, 32 at a time
    score: int
    final: int  # whether C stays FP16
    shifted: int  # whether offsets are subtracted
    direct: int  # whether columns pass from FP2Half to the converter
    bias: int  # 0 none, 1 after FP2Half, 2 before it
    rows: int
    columns: int
    tile_m: int
    tile_k: int
    dataflow: int
    unit: int  # columns of a unit
    tracked: int  # rows that wait for the offsets
    lanes: int
    passes: int  # a pass begins 0 as the last column of the one before leaves, 1 a clock later, 2 as slots are free
    clocks: int  # clocks of a bit of the memory: numerator, and denominator
    bits: int
    groups: int  # groups of the reduction
    narrow: int  # slots of a group of 4 bits, and of 8 bits
    wide: int
    mixed: int
    together: int  # whether rows that see different codes share a pass
    code: int  # bits of a result
    edges: np.ndarray  # of the groups of C
    heads: np.ndarray  # edges of what the vector unit takes; none: (0,)
    falls: np.ndarray  # (units,): cache length at which each is demoted, 0: never
    tiles: np.ndarray  # (tiles of 16, 2): least and greatest such length of its keys, never: the largest int
    seen: np.ndarray  # (rows,), ascending: cache length whose widths each row sees
    keys: np.ndarray  # (rows,), ascending: keys that each row sees
    bands: np.ndarray  # (bands or 1, 5): passes of a tile, slots, clocks until the array is free, slots of both ends
    stays: np.ndarray  # (tiles,): bits of the operand that stays, -1 without one
    passing: np.ndarray  # (tiles, tiles): bits of the operand that passes, -1 without one
    alike: np.ndarray  # (tiles, tiles): tiles from each one on that differ in their place alone; 0: stepped one by one
    period: int  # tiles after which heads repeat; 0: each tile and each group is stepped


class Registers(NamedTuple):
    """What the events of a product change, int64 arrays."""

    there: np.ndarray  # (bands of 8 rows, units of columns): clock at which the last column of the last event left
    first: np.ndarray  # the same for its first column
    missing: np.ndarray  # (bands, groups of C): columns that are not computed
    part: np.ndarray  # (bands, heads): columns that are not computed
    work: np.ndarray  # (5,): passes of the current tile, as in `bands`
    now: np.ndarray  # (NOW,): counts that the next product continues from
    reads: np.ndarray  # (loads, 2): clocks from and to which the memory is read
    writes: np.ndarray  # (stores, 2): first clock of a write, and clocks that it takes


LOAD, ARRAY, HALF, VECTOR, OFFSET, COMPARE, ALIGN, STORE = range(8)  # parts, in `free` and in `busy`
BUSY, DONE, LEFT, BANKS, TILES, WAITS = 8, 16, 17, 18, 20, 22
READS, WRITES, RELEASED, SHIFT, GONE, NEW = 26, 27, 28, 30, 31, 32
PAIRS, WIDE_PAIRS = 33, 34  # groups of a row and a column in scores, and those of 8 bits
NOW = 35
W_LOAD, W_BUFFER, W_BANK, W_ALIGN = range(WAITS, WAITS + 4)
N_PASSES, N_SLOTS, N_PITCH, N_FIRST, N_LAST = range(5)
BAND, SKEW = 8, 15  # rows of the array; clocks from its first to its last column


@kernel
def flow(p, s):
    """Place one product."""
    s.now[SHIFT] = s.now[GONE] = s.now[RELEASED] = s.now[RELEASED + 1] = s.now[NEW] = 0
    tiles_m = (p.rows + p.tile_m - 1) // p.tile_m
    tiles_k = (p.columns + p.tile_k - 1) // p.tile_k
    outer, inner = tiles_m, tiles_k
    if p.dataflow == 1:
        outer, inner = tiles_k, tiles_m
    before, first = s.now.copy(), inner
    for o in range(outer):
        if p.stays[o] < 0:
            continue
        _load(p.stays[o], p, s)
        i = 0
        while i < inner:
            if p.passing[o, i] < 0:
                i += 1
                continue
            if p.period > 0 and i % p.period == 0:
                i += _skipped(o, i, before, first, p, s)
                before[:], first = s.now, i
            _load(p.passing[o, i], p, s)
            mt, kt = o, i
            if p.dataflow == 1:
                mt, kt = i, o
            _tile(mt, kt, p, s)
            i += 1
        first = inner


@inlined
def _skipped(o, i, before, first, p, s):
    """Skip tiles that repeat the period before tile i; return how many.

    before: the registers at its start, tile `first`. All registers that it changed moved by the same clocks, and it
    reads no others, so the next periods move them as far. The last one is stepped, for the latest clock of all.
    """
    if first != i - p.period or p.alike[o, first] <= 2 * p.period:
        return 0
    clocks, periods = s.now[ARRAY] - before[ARRAY], p.alike[o, i] // p.period - 1
    for n in range(NOW):
        if BUSY <= n <= DONE or W_LOAD <= n <= WRITES or n >= PAIRS or s.now[n] == before[n]:
            continue
        if s.now[n] - before[n] != clocks or n in (SHIFT, GONE, NEW):
            return 0
    reads, writes = s.now[READS] - before[READS], s.now[WRITES] - before[WRITES]
    for n in range(s.now[READS], s.now[READS] + periods * reads):
        s.reads[n, 0], s.reads[n, 1] = s.reads[n - reads, 0] + clocks, s.reads[n - reads, 1] + clocks
    for n in range(s.now[WRITES], s.now[WRITES] + periods * writes):
        s.writes[n, 0], s.writes[n, 1] = s.writes[n - writes, 0] + clocks, s.writes[n - writes, 1]
    done = s.now[DONE]
    for n in range(NOW):
        s.now[n] += periods * (s.now[n] - before[n])
    s.now[DONE] = done
    _computed(o, i, periods * p.period, p, s)
    return periods * p.period


@inlined
def _computed(o, i, tiles, p, s):
    """Take the columns of skipped tiles from those that later tiles wait for."""
    if p.dataflow == 1:
        left = o * p.tile_k
        right = min(left + p.tile_k, p.columns)
        for band in range(i * p.tile_m // BAND, (i + tiles) * p.tile_m // BAND):
            if p.score == 1:
                s.part[band, 0] -= right - left
            elif p.heads.size > 1 or p.shifted == 1:
                s.part[band] = s.part[i * p.tile_m // BAND - 1]
                s.missing[band] = s.missing[i * p.tile_m // BAND - 1]
        return
    left, right = i * p.tile_k, (i + tiles) * p.tile_k
    for band in range(o * p.tile_m // BAND, (min(o * p.tile_m + p.tile_m, p.rows) + BAND - 1) // BAND):
        if p.score == 1:
            s.part[band, 0] -= right - left
        if p.shifted == 1:
            for place in range(p.edges.size - 1):
                if left <= p.edges[place] < right:
                    s.missing[band, place] = 0


@inlined
def _clocks(bits, p):
    return (bits * p.clocks + p.bits - 1) // p.bits


@inlined
def _load(bits, p, s):
    """Into the buffer that the array does not read."""
    s.now[W_BUFFER] += max(s.now[TILES] - s.now[LOAD], 0)
    start, clocks = max(s.now[LOAD], s.now[TILES]), _clocks(bits, p)
    s.now[LOAD] = start + clocks
    s.now[BUSY + LOAD] += clocks
    s.reads[s.now[READS], 0], s.reads[s.now[READS], 1] = start, start + clocks
    s.now[READS] += 1
    s.now[NEW] = 1
    s.now[DONE] = max(s.now[DONE], s.now[LOAD])


@inlined
def _tile(mt, kt, p, s):
    """Blocks of a tile in the order of the dataflow."""
    top, left = mt * p.tile_m, kt * p.tile_k
    bottom, right = min(top + p.tile_m, p.rows), min(left + p.tile_k, p.columns)
    tall, broad = BAND, 32
    if p.v == 1:
        tall, broad = 32, 16
    down, across = (bottom - top + tall - 1) // tall, (right - left + broad - 1) // broad
    for n in range(down * across):
        y, x = n // across, n % across
        if p.dataflow == 1:
            y, x = n % down, n // down
        row, column = top + y * tall, left + x * broad
        high, wide = min(tall, bottom - row), min(broad, right - column)
        if p.score == 1 and p.keys[row + high - 1] <= column:
            continue
        _block(row, column, high, wide, p, s)


@inlined
def _block(row, column, high, wide, p, s):
    """A block, and everything whose last missing part it was."""
    columns = _compute(row, column, high, wide, p, s)
    size = high * wide
    vector = (size + p.lanes - 1) // p.lanes
    half = (high + BAND - 1) // BAND * columns
    if p.bias == 2:
        _stream(VECTOR, row, column, high, wide, vector, p, s)
    _stream(HALF, row, column, high, wide, half, p, s)
    if p.bias == 1:
        _stream(VECTOR, row, column, high, wide, vector, p, s)
    band = row // BAND
    if p.v == 1:
        _leave(row, column, high, wide, p, s)
        return
    if p.heads.size == 1:
        _groups(row, column, column + wide, high, p, s)
    else:
        before = _place(p.heads, column)
        place = before
        while place < p.heads.size - 1 and p.heads[place] < column + wide:
            common = min(p.heads[place + 1], column + wide) - max(p.heads[place], column)
            s.part[band, place] -= common
            if s.part[band, place] == 0:
                last = _last(p.heads[place + 1], row + high - 1, p)
                clocks = (high * (last - p.heads[place]) + p.lanes - 1) // p.lanes
                _whole(VECTOR, row, p.heads[place], high, last - p.heads[place], clocks, p, s)
            place += 1
        place = before
        while place < p.heads.size - 1 and p.heads[place] < column + wide:
            if s.part[band, place] == 0:
                s.part[band, place] = -1
                last = _last(p.heads[place + 1], row + high - 1, p)
                _groups(row, p.heads[place], last, high, p, s)
            place += 1
    if p.shifted == 1:
        _keys(p, s)


@inlined
def _last(edge, row, p):
    """End of the blocks that a row sees, before an edge."""
    if p.score == 0:
        return edge
    return min(edge, (p.keys[row] + 31) // 32 * 32)


@inlined
def _place(edges, column):
    """The part that a column is in."""
    low, high = 0, edges.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= column:
            low = middle
        else:
            high = middle
    return low


@inlined
def _compute(row, column, high, wide, p, s):
    """The passes of the array over a block; return its columns, without tiles that no row sees."""
    s.now[W_LOAD] += max(s.now[LOAD] - s.now[ARRAY], 0)
    start = max(s.now[ARRAY], s.now[LOAD])
    clock, end, early, columns = start, start, start, 0
    for top in range(row, row + high, BAND):
        below = min(top + BAND, row + high)
        for left in range(column, column + wide, 16):
            if p.score == 1 and p.keys[below - 1] <= left:
                continue
            _passes(top, below, left, min(left + 16, p.columns), p, s)
            if columns == 0:
                early = start + s.work[N_FIRST]
            if top == row:
                columns += min(16, column + wide - left)
            end = clock + s.work[N_PITCH]
            if p.passes == 0:
                clock += s.work[N_SLOTS] + SKEW * s.work[N_PASSES]
                end = clock
            elif p.passes == 1:
                clock += s.work[N_SLOTS] + (SKEW + 1) * s.work[N_PASSES]
                end = clock - 1
            else:
                end = clock + s.work[N_PITCH] - max(s.work[N_LAST], SKEW + 1) + s.work[N_LAST] + SKEW
                clock += s.work[N_PITCH]
    s.now[ARRAY] = clock
    s.now[BUSY + ARRAY] += clock - start
    if s.now[NEW] == 1:
        s.now[TILES] = s.now[TILES + 1]
    s.now[TILES + 1] = end
    s.now[NEW] = 0
    s.now[DONE] = max(s.now[DONE], end)
    _set(row, column, high, wide, end, early, p, s)
    return columns


@inlined
def _passes(top, bottom, left, right, p, s):
    """Passes over a tile: for scores a pass for each set of widths, which are fewer the more keys are demoted."""
    pairs, work = (right - left) * p.groups, s.work
    s.now[PAIRS] += pairs * (bottom - top)
    if p.score == 0 or p.mixed == 0:
        work[:] = p.bands[min(top // BAND, p.bands.shape[0] - 1)]
        return
    work[N_PASSES] = work[N_SLOTS] = work[N_PITCH] = 0
    r = top
    while r < bottom:
        slots = p.groups * (p.wide if p.tiles[left // 16, 1] > p.seen[r] else p.narrow)
        start = r
        r = bottom if p.together == 1 else _set_end(r, bottom, left, right, p)
        if slots > p.groups * p.narrow:
            s.now[WIDE_PAIRS] += pairs * (r - start)
        if work[N_PASSES] == 0:
            work[N_FIRST] = slots
        work[N_PASSES] += 1
        work[N_SLOTS] += slots
        work[N_PITCH] += max(slots, SKEW + 1)
        work[N_LAST] = slots


@inlined
def _set_end(row, bottom, left, right, p):
    """Row after the last one, from `row` on, that sees the widths of the same set."""
    if not _demoted(p.seen[row], p.seen[bottom - 1], left, right, p):
        return bottom
    row += 1
    while row < bottom and not _demoted(p.seen[row - 1], p.seen[row], left, right, p):
        row += 1
    return row


@inlined
def _demoted(before, after, left, right, p):
    """Whether a key of a tile is demoted between two cache lengths."""
    if before == after or after < p.tiles[left // 16, 0] or before >= p.tiles[left // 16, 1]:
        return False
    for j in range(left, right):  # noqa: SIM110 - numba
        if before < p.falls[j] <= after:
            return True
    return False


@inlined
def _set(row, column, high, wide, end, early, p, s):
    for band in range(row // BAND, (row + high + BAND - 1) // BAND):
        for u in range(column // p.unit, (column + wide + p.unit - 1) // p.unit):
            s.there[band, u] = end
            s.first[band, u] = early


@inlined
def _bounds(row, column, high, wide, p, times):
    """Least and greatest of the times of a rectangle."""
    least = greatest = times[row // BAND, column // p.unit]
    for band in range(row // BAND, (row + high + BAND - 1) // BAND):
        for u in range(column // p.unit, (column + wide + p.unit - 1) // p.unit):
            least = min(least, times[band, u])
            greatest = max(greatest, times[band, u])
    return least, greatest


@inlined
def _stream(name, row, column, high, wide, clocks, p, s):
    """A part that takes columns as they come: it ends a clock after the last one, or later."""
    start = max(s.now[name], _bounds(row, column, high, wide, p, s.first)[0])
    s.now[BUSY + name] += clocks
    s.now[name] = max(start + clocks, _bounds(row, column, high, wide, p, s.there)[1] + 1)
    s.now[DONE] = max(s.now[DONE], s.now[name])
    _set(row, column, high, wide, s.now[name], start + 1, p, s)


@inlined
def _whole(name, row, column, high, wide, clocks, p, s):
    """A part that waits until all is in the temporary SRAM; returns its start."""
    start = max(s.now[name], _bounds(row, column, high, wide, p, s.there)[1])
    s.now[BUSY + name] += clocks
    s.now[name] = start + clocks
    s.now[DONE] = max(s.now[DONE], s.now[name])
    _set(row, column, high, wide, s.now[name], start + 1, p, s)
    return start


@inlined
def _groups(row, column, right, high, p, s):
    """Groups of 8 rows that lack nothing any more leave, or wait for the offsets."""
    band, place = row // BAND, _place(p.edges, column)
    while place < p.edges.size - 1 and p.edges[place] < right:
        s.missing[band, place] -= min(p.edges[place + 1], right) - max(p.edges[place], column)
        if s.missing[band, place] == 0 and p.shifted == 0:
            compare, align, bank, next_bank = s.now[COMPARE], s.now[ALIGN], s.now[BANKS], s.now[BANKS + 1]
            waits, more = s.now[W_BANK], s.now[W_ALIGN]
            _leave(row, p.edges[place], high, min(p.edges[place + 1], p.columns) - p.edges[place], p, s)
            left = right // 32 - place - 1  # whole groups that follow
            if p.period > 0 and p.score == 1 and p.final == 0 and left > 0:
                unit = p.edges[place + 1] // p.unit
                start, source, last = max(compare, bank), s.first[band, unit], s.there[band, unit]
                free = start >= source and start + 32 > last and s.now[BANKS + 1] - next_bank == 32
                if free and s.now[COMPARE] - compare == s.now[ALIGN] - align == s.now[BANKS] - bank == 32:
                    _repeat(left, s.now[W_BANK] - waits, s.now[W_ALIGN] - more, s)
                    place += left
        place += 1


@inlined
def _repeat(groups, bank, align, s):
    """Groups of a row of scores that leave 32 clocks after each other. bank, align: clocks that each waits."""
    for n in range(s.now[WRITES], s.now[WRITES] + groups):
        s.writes[n, 0], s.writes[n, 1] = s.writes[n - 1, 0] + 32, s.writes[n - 1, 1]
    s.now[WRITES] += groups
    s.now[W_BANK] += bank * groups
    s.now[W_ALIGN] += align * groups
    for part in (COMPARE, ALIGN, BUSY + COMPARE, BUSY + ALIGN, BUSY + STORE):
        s.now[part] += (s.writes[s.now[WRITES] - 1, 1] if part == BUSY + STORE else 32) * groups
    for part in (BANKS, BANKS + 1):
        s.now[part] += 32 * groups
    s.now[DONE] = max(s.now[DONE], s.now[ALIGN])


@inlined
def _keys(p, s):
    """Keys go through the offsets in order; those of the window leave after the last of them."""
    while s.now[SHIFT] < p.rows:
        band = s.now[SHIFT] // BAND
        for place in range(p.edges.size - 1):
            if s.missing[band, place] > 0:
                return
        row = s.now[SHIFT]
        rows = min(BAND, p.rows - row)
        clocks = (rows * p.columns + p.lanes - 1) // p.lanes
        start = _whole(OFFSET, row, 0, rows, p.columns, clocks, p, s)
        s.now[RELEASED], s.now[RELEASED + 1] = start + 1, start + clocks
        s.now[SHIFT] += rows
        while s.now[SHIFT] >= p.tracked and s.now[GONE] < s.now[SHIFT]:
            row = s.now[GONE]
            rows = min(BAND, p.rows - row)
            for place in range(p.edges.size - 1):
                _leave(row, p.edges[place], rows, p.edges[place + 1] - p.edges[place], p, s)
            s.now[GONE] += BAND


@inlined
def _leave(row, column, high, wide, p, s):
    """A group through the converter, or FP16 words column by column, and into the memory."""
    groups = high
    if p.v == 1:
        groups = wide
    bits = high * wide * p.code
    if p.final == 0:
        _convert(row, column, high, wide, p, s)
        bits += 5 * groups
    ready = _bounds(row, column, high, wide, p, s.there)[1]
    clocks = _clocks(bits, p)
    s.now[BUSY + STORE] += clocks
    s.writes[s.now[WRITES], 0], s.writes[s.now[WRITES], 1] = ready, clocks
    s.now[WRITES] += 1
    if p.final == 1:
        s.now[LEFT] = max(s.now[LEFT], ready) + wide
        s.now[DONE] = max(s.now[DONE], s.now[LEFT])


@inlined
def _convert(row, column, high, wide, p, s):
    """Fill a bank as columns come, then run the aligner, which both banks share."""
    clocks = wide
    if p.v == 1:
        clocks = (high + BAND - 1) // BAND * 16
    low, top = _bounds(row, column, high, wide, p, s.first)
    last = _bounds(row, column, high, wide, p, s.there)[1]
    if p.shifted == 1:
        top, last = max(top, s.now[RELEASED]), max(last, s.now[RELEASED + 1])
    source = top
    if p.direct == 1:
        source = low
    s.now[W_BANK] += max(s.now[BANKS] - max(source, s.now[COMPARE]), 0)
    start = max(s.now[COMPARE], source, s.now[BANKS])
    end = max(start + clocks, last + 1)
    s.now[BUSY + COMPARE] += clocks
    s.now[COMPARE] = end
    if p.direct == 1 and start > source:
        s.now[ARRAY] += start - source
        s.now[HALF] += start - source
    s.now[W_ALIGN] += max(s.now[ALIGN] - end, 0)
    s.now[ALIGN] = max(s.now[ALIGN], end) + clocks
    s.now[BUSY + ALIGN] += clocks
    s.now[BANKS], s.now[BANKS + 1] = s.now[BANKS + 1], s.now[ALIGN]
    s.now[DONE] = max(s.now[DONE], s.now[ALIGN])
    _set(row, column, high, wide, s.now[ALIGN], start + 1, p, s)


@kernel
def written(reads, writes, now):
    """Clock at which the last result is in the memory: writes go between the reads, one after the other."""
    clock = at = 0
    for n in range(now[WRITES]):
        clock, left = max(clock, writes[n, 0]), writes[n, 1]
        while at < now[READS] and reads[at, 0] < clock + left:
            if reads[at, 1] > clock:
                left, clock = left - max(reads[at, 0] - clock, 0), reads[at, 1]
            at += 1
        clock += left
    return clock
