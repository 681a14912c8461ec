"""A line of Harmonia's parts, clock by clock: every block of a product in order. Nothing of refemu.

Paper: [harmonia §IV-A, §IV-C, §IV-D, §V-A].
"""

from typing import NamedTuple

import numba
import numpy as np

PARTS = ("load", "array", "FP2Half", "vector unit", "offsets", "comparators", "aligner")
LOAD, ARRAY, HALF, VECTOR, OFFSETS, COMPARE, ALIGN = range(7)
#: a line: clocks at which parts are free; busy clocks of parts; two banks; ends of the last two tiles; whether a tile
#: is fresh; clock at which the last FP16 column has left; clock at which all is done; numbers of reads and writes
BUSY, BANKS, TILES, FRESH, LEFT, DONE, READS, WRITES, LENGTH = 7, 14, 16, 18, 19, 20, 21, 22, 23
Tile = tuple[int, int, int, int]  #: first row, first column, row after the last, column after the last


class Sizes(NamedTuple):
    """A product, as `prompt.Job` has it."""

    rows: int
    inner: int
    columns: int
    vector: int
    code: int
    final: int
    v: int
    shifted: int
    score: int
    tracked: int
    loads: int  #: whether the memory takes clocks


@numba.njit(cache=True)
def _slots(job: Sizes, seen: np.ndarray, tile: Tile, slots: np.ndarray) -> int:
    """Clocks of the passes of a tile of the array: one for each set of widths that its rows see.

    Key j has 4 bits from a cache length of j + 65 on, but the first 32 never; a group g of values from 32 g + 96 on,
    but the first never. So a row sees 4 bits from the 32nd key on, or from the second group on, to some last one.
    """
    (top, left, bottom, right), before, number = tile, -1, 0
    if not len(seen):
        slots[0] = job.inner // 32
        return 1
    for row in range(top, bottom):
        if job.score:  # scores: four groups of channels
            end = min(max(seen[row] - 64, max(left, 32)), right)
            clocks = 4 if left >= 32 and end == right else 8
        else:
            end = max((seen[row] - 96) // 32, 0)
            clocks = 2 * (-(-seen[bottom - 1] // 32)) - end
        if end != before:
            slots[number], before, number = clocks, end, number + 1
    return number


@numba.njit(cache=True)
def _use(line: np.ndarray, part: int, ready: int, clocks: int) -> int:
    """Start of a part that takes its next work."""
    start = max(line[part], ready)
    line[part] = start + clocks
    line[BUSY + part] += clocks
    return start


@numba.njit(cache=True)
def _leave(job: Sizes, line: np.ndarray, writes: np.ndarray, tile: Tile, first: int, there: int) -> None:
    """Through the converter unless it stays FP16, and into the memory; columns from FP2Half wait for a bank."""
    row, column, below, right = tile
    bits = (below - row) * (right - column) * job.code
    if not job.final:
        clocks = 16 * (-(-(below - row) // 8)) if job.v else right - column
        begin = max(line[COMPARE], first, line[BANKS])
        if not job.vector and not job.shifted:
            for part in (ARRAY, HALF):
                line[part] += begin - first
        _use(line, COMPARE, begin, clocks)
        line[COMPARE] = max(begin + clocks, there + 1)
        _use(line, ALIGN, line[COMPARE], clocks)
        there = line[ALIGN]
        line[BANKS], line[BANKS + 1] = line[BANKS + 1], there
        bits += 5 * (right - column if job.v else below - row)
    else:
        line[LEFT] = max(line[LEFT], there) + right - column
    line[DONE] = max(line[DONE], there)
    writes[line[WRITES]] = there, _clocks(job.loads, bits)
    line[WRITES] += 1


@numba.njit(cache=True)
def _clocks(loads: int, bits: int) -> int:
    """Of 300 MHz for 256 GB/s."""
    return -(-bits * 3 // 20480) if loads else 0


@numba.njit(cache=True)
def run(
    job: Sizes, seen: np.ndarray, events: np.ndarray, line: np.ndarray, reads: np.ndarray, writes: np.ndarray
) -> None:
    """A product on a line, event by event."""
    rows, columns, vector, v, shifted, score = job.rows, job.columns, job.vector, job.v, job.shifted, job.score
    bands, heads = -(-rows // 8), -(-columns // vector) if vector else 1
    parts, complete = np.zeros((bands, heads), np.int64), np.zeros(bands, np.int64)
    last, slots = np.zeros((bands, heads), np.int64), np.zeros(8, np.int64)
    given, gone, released = 0, 0, (0, 0)
    for what, top, left, bottom, right, bits in events:
        if what < 2:  # into the buffer that the array does not read
            start = _use(line, LOAD, line[TILES], _clocks(job.loads, bits))
            reads[line[READS]] = start, line[LOAD]
            line[READS], line[FRESH] = line[READS] + 1, 1
            continue
        tall, broad = (32, 16) if v else (8, 32)
        high, wide = -(-(bottom - top) // tall), -(-(right - left) // broad)
        for number in range(high * wide):
            down, across = (number % high, number // high) if what == 2 else (number // wide, number % wide)
            row, column = top + down * tall, left + across * broad
            below, beyond = min(row + tall, bottom), min(column + broad, right)
            if score and seen[below - 1] <= column:
                continue
            begun, there = _block(job, seen, line, (row, column, below, beyond), slots)
            if v:
                _leave(job, line, writes, (row, column, below, beyond), begun + 1, there)
                continue
            band = row // 8
            complete[band] += beyond - column
            if vector:  # a head, a row of scores or a block with an activation, once it is complete
                head = column // vector
                edge = min((head + 1) * vector, columns)
                if score:
                    edge = min(edge, 32 * (-(-seen[below - 1] // 32)))
                parts[band, head] += beyond - column
                if parts[band, head] == edge - head * vector:
                    clocks = -(-(below - row) * (edge - head * vector) // 8)
                    start = _use(line, VECTOR, there, clocks)
                    last[band, head] = start + clocks
                    line[DONE] = max(line[DONE], start + clocks)
                    for group in range(head * vector, 0 if shifted else edge, 32):
                        block = (row, group, below, min(group + 32, edge))
                        _leave(job, line, writes, block, start + 1, start + clocks)
            elif not shifted:
                _leave(job, line, writes, (row, column, below, beyond), begun + 1, there)
            # offsets of rows in order; those that choose them leave after the last of these
            while shifted and given < rows and complete[given // 8] == columns:
                under = min(given + 8, rows)
                clocks = -(-(under - given) * columns // 8)
                start = _use(line, OFFSETS, last[given // 8].max(), clocks)
                released = (start + 1, start + clocks)
                line[DONE] = max(line[DONE], start + clocks)
                given = under
                while given >= job.tracked and gone < given:
                    under = min(gone + 8, rows)
                    for group in range(0, columns, 32):
                        _leave(job, line, writes, (gone, group, under, group + 32), released[0], released[1])
                    gone = under


@numba.njit(cache=True)
def _block(job: Sizes, seen: np.ndarray, line: np.ndarray, tile: Tile, slots: np.ndarray) -> tuple[int, int]:
    """A block through the array and FP2Half: when FP2Half begins, and when the last column is there."""
    row, column, below, right = tile
    start = max(line[ARRAY], line[LOAD])
    clock, first, end, count = start, 0, start, 0
    for band in range(row, below, 8):
        under = min(band + 8, below)
        for left in range(column, right, 16):
            if job.score and seen[under - 1] <= left:
                continue
            for number in range(_slots(job, seen, (band, left, under, min(left + 16, right)), slots)):
                first = first or clock + slots[number]
                end = clock + slots[number] + 15
                clock += max(slots[number], 16)
            count += min(16, right - left)
    line[BUSY + ARRAY] += clock - start
    line[ARRAY] = clock
    line[TILES], line[TILES + 1], line[FRESH] = line[TILES + line[FRESH]], end, 0
    begun = _use(line, HALF, first, count)
    line[HALF] = max(line[HALF], end + 1)
    line[DONE] = max(line[DONE], line[HALF])
    return begun, line[HALF]


@numba.njit(cache=True)
def end(line: np.ndarray, reads: np.ndarray, writes: np.ndarray) -> int:
    """Clock of the end, after the writes, which go between the reads."""
    clock, at = 0, 0
    for number in range(line[WRITES]):
        ready, count = writes[number]
        clock = max(clock, ready)
        while at < line[READS] and reads[at, 0] < clock + count:
            start, stop = reads[at]
            if stop > clock:
                count -= max(start - clock, 0)
                clock = stop
            at += 1
        clock += count
    return max(clock, line[DONE], line[LEFT])
