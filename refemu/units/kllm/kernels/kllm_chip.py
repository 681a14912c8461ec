"""Whole products on the lanes of the chip, every edge of every lane, for compiled kllm_chip [kllm §IV-A, Fig. 6].

The registers of all lanes are in arrays with a first axis of lanes, laid out as in kernels/pe_lane.py.
"""

import numpy as np

from refemu.arith.jit import inlined, kernel
from refemu.units.kllm.kernels.pe_lane import (
    BIAS,
    IDLE,
    MERGE,
    P_BIASES,
    P_CLOSES,
    P_END,
    P_ENTRY,
    P_GO,
    P_LAST,
    P_LOAD,
    P_OPENS,
    P_OUTLIERS,
    P_SCALE,
    P_SHIFT,
    P_SHIFTS,
    P_TURNS,
    PORTS,
    R_ADDRESS,
    R_BIASES,
    R_CLOSES,
    R_FRESH,
    R_FULL,
    R_PHASE,
    R_READY,
    R_SHIFTS,
    R_VALID,
    REDUCE,
    REGISTERS,
    S_Y,
    SHIFT,
    SPARSE,
    W_BIAS,
    W_SCALE,
    W_SUM,
    lane_edge,
    word,
)

PASS_ROW, PASS_FIRST, PASS_WIDTH, PASS_LOW, PASS_HIGH, PASS_OPENS, PASS_CLOSES, PASS_OUTLIERS, PASS_LENGTH = range(9)


@kernel
def product(
    options,
    sizes,
    passes,
    flags,
    a,
    b,
    a_mask,
    b_mask,
    a_words,
    a_coded,
    b_words,
    centroids,
    table,
    rows,
    columns,
    y,
    totals,
):
    """y (M, N) uint16 <- all passes; returns the edges, and the largest count of a register.

    options: as of `lane_edge`. sizes: lanes, counters, MACs, entries, concat. passes: int64 (passes, 9) by the names
    above. flags: shifts, biases, integer. a (M, K), b (N, K), masks and words of the sparse path alike, those of B
    (0, 0) without outliers. centroids: uint16 (M or 1, entries of B). rows: words (2, M) of scale and shift; columns:
    words (3, N) by `WORK`.
    """
    lanes, counters, macs, size, concat = sizes
    positions = options[1]
    r = np.zeros((lanes, REGISTERS), np.int64)
    r[:, R_FRESH], r[:, R_READY] = 1, 1
    slab, held = np.zeros((lanes, 2, concat), np.uint8), np.zeros((lanes, positions * flags[2]), np.uint8)
    count, counted = np.zeros((lanes, counters, size), np.int64), np.zeros((lanes, macs, size), np.int64)
    reducing, work = np.zeros((lanes, macs, size), np.int64), np.zeros((lanes, 3, macs), np.int64)
    scales, sums = np.zeros((lanes, 2), np.int64), np.zeros((lanes, 4, macs), np.float32)
    overflow, p = np.zeros((lanes, macs), np.uint8), np.zeros(PORTS, np.int64)
    row, indices, valid = np.zeros(positions, np.uint8), np.zeros(concat, np.uint8), np.zeros(concat, np.uint8)
    tile, pair, coded = np.zeros((3, macs), np.int64), np.zeros((2, macs), np.int64), np.zeros((3, macs), np.uint8)
    following, working, cursor = (
        np.zeros((lanes, 3), np.int64),
        np.zeros(lanes, np.int64),
        np.zeros((lanes, macs), np.int64),
    )
    following[:, 2] = -1
    waiting, edges, largest = np.int64(0), np.int64(0), np.int64(0)
    while waiting < passes.shape[0] or _active(r):
        go = waiting < passes.shape[0] and _frees(r[0], size)
        if go:
            for lane in range(lanes):
                go = go and (_width(passes[waiting], lane, macs) == 0 or r[lane, R_FULL] == 1)
        for lane in range(lanes):
            p[:] = 0
            p[P_TURNS], p[P_ENTRY] = 1, table[r[lane, R_ADDRESS]]
            if r[lane, R_READY] == 1:
                _slab(
                    options, macs, counters, passes, lane, following[lane], a, b, a_mask, b_mask, row, indices, valid, p
                )
            takes = go and _width(passes[waiting], lane, macs) > 0
            if takes:
                _tile(passes[waiting], lane, flags, rows, columns, tile, p)
            if r[lane, R_PHASE] == SPARSE:
                _outliers(
                    passes[working[lane]],
                    lane,
                    macs,
                    a_mask,
                    b_mask,
                    a_words,
                    a_coded,
                    b_words,
                    b,
                    centroids,
                    cursor[lane],
                    pair,
                    coded,
                )
            peak = lane_edge(
                options,
                p,
                row,
                indices,
                valid,
                tile,
                pair,
                coded,
                r[lane],
                slab[lane],
                held[lane],
                count[lane],
                counted[lane],
                reducing[lane],
                work[lane],
                scales[lane],
                sums[lane],
                overflow[lane],
                totals,
            )
            largest = max(largest, peak)
            if r[lane, R_VALID] == 1:
                done = passes[working[lane]]
                for j in range(_width(done, lane, macs)):
                    y[done[PASS_ROW], done[PASS_FIRST] + lane * macs + j] = word(sums[lane, S_Y, j])
            if takes:  # after the outputs, which may come in the same edge
                working[lane] = waiting
                cursor[lane, :] = 0
        waiting += np.int64(go)
        edges += 1
    return edges, largest


@inlined
def _active(r):
    """Whether the MACs of a lane are at work."""
    active = False
    for lane in range(r.shape[0]):
        active = active or r[lane, R_PHASE] != IDLE
    return active


@inlined
def _frees(r, size):
    """Whether the next edge is the last of the tile under reduction, or no tile is under reduction."""
    phase = r[R_PHASE]
    last = phase == MERGE and r[R_SHIFTS] == 0 and r[R_BIASES] == 0
    last = last or (phase == SHIFT and r[R_BIASES] == 0) or phase in (BIAS, IDLE)
    return last or (phase == REDUCE and r[R_ADDRESS] == size - 1 and r[R_CLOSES] == 0)


@inlined
def _width(task, lane, macs):
    """Columns that a lane has in a pass."""
    return max(min(task[PASS_WIDTH] - lane * macs, macs), 0)


@inlined
def _slab(options, macs, counters, passes, lane, following, a, b, a_mask, b_mask, row, indices, valid, p):
    """The next slab of a lane, if any. following: pass, column, position (-1: the pass begins)."""
    positions, inputs, apart = options[1], options[2], options[3]
    while following[0] < passes.shape[0] and _width(passes[following[0]], lane, macs) == 0:
        following[0] += 1
    if following[0] < passes.shape[0]:
        task = passes[following[0]]
        width, m = _width(task, lane, macs), task[PASS_ROW]
        if following[2] < 0:
            following[1], following[2] = 0, task[PASS_LOW]
        low, together = following[2], counters if apart == 1 else 1
        high = min(low + positions, task[PASS_HIGH])
        length = high - low
        row[:], indices[:], valid[:] = 0, 0, 0
        for k in range(length):
            row[k] = a[m, low + k]
        for c in range(min(together, width - following[1])):
            n = task[PASS_FIRST] + lane * macs + following[1] + c
            for k in range(length):
                indices[c * positions + k] = b[n, low + k]
                valid[c * positions + k] = 1 - a_mask[m, low + k]
            if b_mask.size > 0:
                for k in range(length):
                    valid[c * positions + k] &= 1 - b_mask[n, low + k]
        group = inputs if apart == 1 else inputs * counters
        last = high == task[PASS_HIGH]
        p[P_LOAD], p[P_TURNS] = 1, max((length + group - 1) // group, 1)
        p[P_LAST], p[P_END] = np.int64(last), np.int64(last and following[1] + together >= width)
        following[2] = high
        if last:
            following[1], following[2] = following[1] + together, task[PASS_LOW]
            if following[1] >= width:
                following[0], following[2] = following[0] + 1, -1


@inlined
def _tile(task, lane, flags, rows, columns, tile, p):
    """Operands of the tile that a lane begins to reduce."""
    p[P_GO], p[P_OUTLIERS], p[P_OPENS], p[P_CLOSES] = 1, task[PASS_OUTLIERS], task[PASS_OPENS], task[PASS_CLOSES]
    p[P_SHIFTS], p[P_BIASES] = flags[0] * task[PASS_CLOSES], flags[1] * task[PASS_CLOSES]
    p[P_SCALE], p[P_SHIFT] = rows[0, task[PASS_ROW]], rows[1, task[PASS_ROW]]
    tile[:, :] = 0
    for j in range(_width(task, lane, tile.shape[1])):
        n = task[PASS_FIRST] + lane * tile.shape[1] + j
        tile[W_SCALE, j], tile[W_SUM, j], tile[W_BIAS, j] = columns[0, n], columns[1, n], columns[2, n]


@inlined
def _outliers(task, lane, macs, a_mask, b_mask, a_words, a_coded, b_words, b, centroids, cursor, pair, coded):
    """The next excluded position of each column; cursor: position of each column."""
    m = task[PASS_ROW]
    coded[:, :] = 0
    for j in range(_width(task, lane, macs)):
        n = task[PASS_FIRST] + lane * macs + j
        k = cursor[j]
        while k < task[PASS_LENGTH] and not (a_mask[m, k] or (b_mask.size > 0 and b_mask[n, k])):
            k += 1
        if k < task[PASS_LENGTH]:
            pair[0, j], coded[0, j], coded[1, j] = a_words[m, k], 1, a_coded[m, k]
            if b_mask.size > 0 and b_mask[n, k]:
                pair[1, j] = b_words[n, k]
            else:
                pair[1, j], coded[2, j] = centroids[min(m, centroids.shape[0] - 1), b[n, k]], 1
        cursor[j] = k + 1
