"""Whole products on the lanes of the chip, every edge of every lane, for compiled kllm_chip [kllm §IV-A, Fig. 6].

The registers of all lanes are in arrays with a first axis of lanes, laid out as in kernels/pe_lane.py.
"""

import numpy as np

from refemu.arith.jit import inlined, kernel
from refemu.units.kllm.kernels import pe_lane

PASS_ROW, PASS_FIRST, PASS_WIDTH, PASS_LOW, PASS_HIGH, PASS_OPENS, PASS_CLOSES, PASS_OUTLIERS, PASS_LENGTH = range(9)


@kernel
def product(options, sizes, passes, flags, operands, table, rows, columns, y, totals):
    """y (M, N) uint16 <- all passes; returns the edges, and the largest count of a register.

    options: as of `lane_edge`. sizes: lanes, counters, MACs, entries, concat. passes: int64 (passes, 9) by the names
    above. flags: shifts, biases, integer. operands: a (M, K), b (N, K), masks, words of A and whether they are
    centroids, words of B, (0, 0) without outliers, like its mask; centroids, uint16 (M or 1, entries of B). rows: words
    (2, M) of scale and shift; columns: words (3, N) by `WORK`.
    """
    lanes, counters, macs, size, concat = sizes
    positions = options[1]
    registers = pe_lane.at_reset(lanes, concat, positions * flags[2], counters, macs, size)
    r, sums = registers[0], registers[8]
    p = np.zeros(pe_lane.PORTS, np.int64)
    row, indices, valid = np.zeros(positions, np.uint8), np.zeros(concat, np.uint8), np.zeros(concat, np.uint8)
    tile, pair, coded = np.zeros((3, macs), np.int64), np.zeros((2, macs), np.int64), np.zeros((3, macs), np.uint8)
    following, working = np.zeros((lanes, 3), np.int64), np.zeros(lanes, np.int64)
    cursor = np.zeros((lanes, macs), np.int64)
    following[:, 2] = -1
    waiting, edges, largest = np.int64(0), np.int64(0), np.int64(0)
    while waiting < passes.shape[0] or _active(r):
        go = waiting < passes.shape[0] and _frees(r[0], size)
        if go:
            for lane in range(lanes):
                go = go and (_width(passes[waiting], lane, macs) == 0 or r[lane, pe_lane.R_FULL] == 1)
        for lane in range(lanes):
            p[:] = 0
            p[pe_lane.P_TURNS], p[pe_lane.P_ENTRY] = 1, table[r[lane, pe_lane.R_ADDRESS]]
            if r[lane, pe_lane.R_READY] == 1:
                _slab(options, macs, counters, passes, lane, following[lane], operands, row, indices, valid, p)
            takes = go and _width(passes[waiting], lane, macs) > 0
            if takes:
                _tile(passes[waiting], lane, flags, rows, columns, tile, p)
            if r[lane, pe_lane.R_PHASE] == pe_lane.SPARSE:
                _outliers(passes[working[lane]], lane, macs, operands, cursor[lane], pair, coded)
            inputs = row, indices, valid, tile, pair, coded
            largest = max(largest, pe_lane.lane_edge(options, p, inputs, pe_lane.of_lane(registers, lane), totals))
            if r[lane, pe_lane.R_VALID] == 1:
                done = passes[working[lane]]
                for j in range(_width(done, lane, macs)):
                    y[done[PASS_ROW], done[PASS_FIRST] + lane * macs + j] = pe_lane.word(sums[lane, pe_lane.S_Y, j])
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
        active = active or r[lane, pe_lane.R_PHASE] != pe_lane.IDLE
    return active


@inlined
def _frees(r, size):
    """Whether the next edge is the last of the tile under reduction, or no tile is under reduction."""
    phase = r[pe_lane.R_PHASE]
    last = phase == pe_lane.MERGE and r[pe_lane.R_SHIFTS] == 0 and r[pe_lane.R_BIASES] == 0
    last = last or (phase == pe_lane.SHIFT and r[pe_lane.R_BIASES] == 0) or phase in (pe_lane.BIAS, pe_lane.IDLE)
    return last or (phase == pe_lane.REDUCE and r[pe_lane.R_ADDRESS] == size - 1 and r[pe_lane.R_CLOSES] == 0)


@inlined
def _width(task, lane, macs):
    """Columns that a lane has in a pass."""
    return max(min(task[PASS_WIDTH] - lane * macs, macs), 0)


@inlined
def _slab(options, macs, counters, passes, lane, following, operands, row, indices, valid, p):
    """The next slab of a lane, if any. following: pass, column, position (-1: the pass begins)."""
    a, b, a_mask, b_mask, _, _, _, _ = operands
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
        p[pe_lane.P_LOAD], p[pe_lane.P_TURNS] = 1, max((length + group - 1) // group, 1)
        p[pe_lane.P_LAST], p[pe_lane.P_END] = last, last and following[1] + together >= width
        following[2] = high
        if last:
            following[1], following[2] = following[1] + together, task[PASS_LOW]
            if following[1] >= width:
                following[0], following[2] = following[0] + 1, -1


@inlined
def _tile(task, lane, flags, rows, columns, tile, p):
    """Operands of the tile that a lane begins to reduce."""
    p[pe_lane.P_GO], p[pe_lane.P_OUTLIERS], p[pe_lane.P_OPENS], p[pe_lane.P_CLOSES] = (
        1,
        task[PASS_OUTLIERS],
        task[PASS_OPENS],
        task[PASS_CLOSES],
    )
    p[pe_lane.P_SHIFTS], p[pe_lane.P_BIASES] = flags[0] * task[PASS_CLOSES], flags[1] * task[PASS_CLOSES]
    p[pe_lane.P_SCALE], p[pe_lane.P_SHIFT] = rows[0, task[PASS_ROW]], rows[1, task[PASS_ROW]]
    tile[:, :] = 0
    for j in range(_width(task, lane, tile.shape[1])):
        n = task[PASS_FIRST] + lane * tile.shape[1] + j
        tile[pe_lane.W_SCALE, j], tile[pe_lane.W_SUM, j], tile[pe_lane.W_BIAS, j] = (
            columns[0, n],
            columns[1, n],
            columns[2, n],
        )


@inlined
def _outliers(task, lane, macs, operands, cursor, pair, coded):
    """The next excluded position of each column; cursor: position of each column."""
    _, b, a_mask, b_mask, a_words, a_coded, b_words, centroids = operands
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
