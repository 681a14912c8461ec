"""One edge of a lane, for compiled pe_lane and for whole products on the chip [kllm §IV-A, Fig. 6].

Registers: r int64, by the names below; q and valid uint8 (2, concat), amount uint8 (positions,), empty without
integers; count int64 (counters, entries); counted, reducing int64 (macs, entries); work int64 (3, macs) and (2,) fp16
words, by `WORK` and `SCALES`; sums float32 (4, macs) fp16 values, by `SUMS`; overflow uint8 (macs,).
"""

import numpy as np

from refemu.arith.fp16 import NAN_BITS
from refemu.arith.jit import callee, inlined, kernel
from refemu.arith.kernels.scalars import canonical, narrow, round16, widen

R_TURNS, R_LEFT, R_LAST, R_END, R_FRESH, R_MERGING, R_MERGE_END, R_COLUMNS, R_FULL = range(9)
R_PHASE, R_ADDRESS, R_WORKING, R_OUTLIERS, R_CLOSES, R_SHIFTS, R_BIASES, R_READY, R_VALID = range(9, 18)
REGISTERS = 18
P_LOAD, P_LAST, P_END, P_TURNS, P_GO, P_OUTLIERS, P_OPENS, P_CLOSES, P_SHIFTS, P_BIASES = range(10)
P_SCALE, P_SHIFT, P_ENTRY = range(10, 13)  # words
PORTS = 13
W_SCALE, W_SUM, W_BIAS = range(3)
S_ACC, S_OUTSIDE, S_JOINT, S_Y = range(4)
T_CYCLES, T_COUNT, T_STALLS, T_MERGE, T_MAC, T_TILES, T_CONCATS, T_INDICES, T_LOOKUPS, T_REDUCE = range(10)
T_SPARSE, T_DEQUANTS, T_SCALES, T_ADDS, T_OVERFLOWS = range(10, 15)
TOTALS = 15
IDLE, REDUCE, SPARSE, SCALE, MERGE, SHIFT, BIAS = range(7)
NEGATIVE_ZERO, ONE = np.float32(-0.0), np.float32(1)


@inlined
def at_reset(lanes, concat, positions, counters, macs, entries):
    """Registers of several lanes, in the order of `lane_edge`. positions: 0 without integers."""
    r = np.zeros((lanes, REGISTERS), np.int64)
    r[:, R_FRESH], r[:, R_READY] = 1, 1
    slab, held = np.zeros((lanes, 2, concat), np.uint8), np.zeros((lanes, positions), np.uint8)
    count, counted = np.zeros((lanes, counters, entries), np.int64), np.zeros((lanes, macs, entries), np.int64)
    reducing, work = np.zeros((lanes, macs, entries), np.int64), np.zeros((lanes, 3, macs), np.int64)
    scales, sums = np.zeros((lanes, 2), np.int64), np.zeros((lanes, 4, macs), np.float32)
    return r, slab, held, count, counted, reducing, work, scales, sums, np.zeros((lanes, macs), np.uint8)


@inlined
def of_lane(registers, lane):
    """Registers of one lane."""
    r, slab, held, count, counted, reducing, work, scales, sums, overflow = registers
    work, scales, sums, overflow = work[lane], scales[lane], sums[lane], overflow[lane]
    return r[lane], slab[lane], held[lane], count[lane], counted[lane], reducing[lane], work, scales, sums, overflow


@callee
def lane_edge(options, p, inputs, registers, totals):
    """Advance an edge.

    options: b_bits (0 with integers), positions of a slab, inputs, whether counters have separate columns, merge edges.
    p: scalar ports. inputs: a, b and valid of the slab, words (3, macs) of the tile by `WORK`, words (2, macs) of the
    sparse path, and uint8 (3, macs), whether a product exists, x is a centroid and w is a centroid. Returns the largest
    count of a register.
    """
    a, b, valid, tile, product, coded = inputs
    r, slab, held, count, counted, reducing, work, scales, sums, overflow = registers
    b_bits, positions, turn, apart, merge_edges = options
    totals[T_CYCLES] += 1
    r[R_VALID] = 0
    full, left, merging, ready = r[R_FULL], r[R_LEFT], r[R_MERGING], r[R_READY]
    if r[R_PHASE] != IDLE:
        totals[T_MAC] += 1
        _macs(p[P_ENTRY], product, coded, r, reducing, work, scales, sums, overflow, totals)
    swaps = full == 1 and p[P_GO] == 1 and r[R_PHASE] == IDLE
    merges = merging > 0 and (swaps or full == 0)
    largest = np.int64(0)
    if swaps:
        _swap(p, tile, r, counted, reducing, work, scales, sums, totals)
    if merges:
        largest = _merged(apart, merge_edges, r, count, counted)
        totals[T_MERGE] += 1
    if left > 0:
        if merging == np.int64(merges):
            largest = max(largest, _counted(positions, turn, apart, merge_edges, r, slab, held, count, totals))
        else:
            totals[T_STALLS] += 1
    if p[P_LOAD] == 1 and ready == 1:
        _loaded(b_bits, p, a, b, valid, r, slab, held, totals)
    counts = r[R_MERGING] == 0 or (r[R_MERGING] == 1 and r[R_FULL] == 0)
    r[R_READY] = np.int64(r[R_LEFT] == 0 or (r[R_LEFT] == 1 and counts))
    return largest


@inlined
def _loaded(b_bits, p, a, b, valid, r, slab, held, totals):
    """Take the slab; b_bits is 0 if integers skip the Concat units."""
    positions, concat = a.size, b.size
    if b_bits > 0:
        for at in range(concat):
            slab[0, at] = np.uint8((a[at % positions] << b_bits) | b[at])
        totals[T_CONCATS] += concat
    else:
        for at in range(concat):
            slab[0, at] = b[at]
        for at in range(positions):
            held[at] = a[at]
    for at in range(concat):
        slab[1, at] = valid[at]
    r[R_TURNS], r[R_LEFT], r[R_LAST], r[R_END] = p[P_TURNS], p[P_TURNS], p[P_LAST], p[P_LAST] & p[P_END]


@inlined
def _counted(positions, inputs, apart, merge_edges, r, slab, held, count, totals):
    """Count one turn of the slab; return the largest count."""
    turn, indices, largest = r[R_TURNS] - r[R_LEFT], np.int64(0), np.int64(0)
    for counter in range(count.shape[0]):
        if r[R_FRESH] == 1:
            for i in range(count.shape[1]):
                count[counter, i] = 0
        place = (turn * count.shape[0] + counter) * inputs
        if apart == 1:
            place = counter * positions + turn * inputs
        for at in range(place, place + inputs):
            if slab[1, at] == 1:
                amount = np.int64(1)
                if held.size > 0:
                    amount = np.int64(held[at % positions])
                count[counter, slab[0, at]] += amount
                largest = max(largest, count[counter, slab[0, at]])
                indices += 1
    totals[T_COUNT] += 1
    totals[T_INDICES] += indices
    r[R_FRESH] = 0
    r[R_LEFT] -= 1
    if r[R_LEFT] == 0 and r[R_LAST] == 1:
        r[R_FRESH], r[R_MERGING], r[R_MERGE_END] = 1, merge_edges, r[R_END]
    return largest


@inlined
def _merged(apart, merge_edges, r, count, counted):
    """Merge histograms into the bank; return the largest count."""
    counters, largest, first, last = count.shape[0], np.int64(0), np.int64(0), np.int64(count.shape[0])
    if merge_edges > 1:
        first, last = merge_edges - r[R_MERGING], merge_edges - r[R_MERGING] + 1
    for counter in range(first, last):
        column = r[R_COLUMNS]
        if apart == 1:
            column = np.int64(counter)
        for i in range(count.shape[1]):
            counted[column, i] += count[counter, i]
            largest = max(largest, counted[column, i])
    r[R_MERGING] -= 1
    if r[R_MERGING] == 0:
        r[R_COLUMNS] += counters if apart == 1 else 1
        if r[R_MERGE_END] == 1 or r[R_COLUMNS] == counted.shape[0]:
            r[R_FULL] = 1
    return largest


@inlined
def _swap(p, tile, r, counted, reducing, work, scales, sums, totals):
    """Hand the counted tile to the MACs."""
    for j in range(counted.shape[0]):
        for i in range(counted.shape[1]):
            reducing[j, i], counted[j, i] = counted[j, i], 0
        for name in range(3):
            work[name, j] = tile[name, j]
        if p[P_OPENS] == 1:
            sums[S_ACC, j], sums[S_OUTSIDE, j] = 0, 0
    scales[0], scales[1] = p[P_SCALE], p[P_SHIFT]
    r[R_WORKING], r[R_COLUMNS], r[R_FULL], r[R_PHASE], r[R_ADDRESS] = r[R_COLUMNS], 0, 0, REDUCE, 0
    r[R_OUTLIERS], r[R_CLOSES], r[R_SHIFTS], r[R_BIASES] = p[P_OUTLIERS], p[P_CLOSES], p[P_SHIFTS], p[P_BIASES]
    totals[T_TILES] += 1


@callee
def _mac(a, b, acc):
    """r16(acc + r16(a * b)), with one NaN."""
    return canonical(round16(acc + round16(a * b)))


@kernel
def word(x):
    """The fp16 word of a value, one word for all NaN."""
    bits = np.int64(narrow(x))
    return np.uint16(NAN_BITS if bits & 0x7FFF > 0x7C00 else bits)


@kernel
def _value(word):
    """The value of an fp16 word."""
    return widen(np.uint16(word))


@inlined
def _macs(entry, product, coded, r, reducing, work, scales, sums, overflow, totals):
    """Run the MACs in their phase."""
    phase, working, macs = r[R_PHASE], r[R_WORKING], sums.shape[1]
    scale = _value(scales[0])
    if phase == REDUCE:
        value, address = _value(entry), r[R_ADDRESS]
        for j in range(working):
            sums[S_ACC, j] = _mac(round16(np.float32(reducing[j, address])), value, sums[S_ACC, j])
        totals[T_LOOKUPS] += working
        totals[T_REDUCE] += working
        r[R_ADDRESS] += 1
        if r[R_ADDRESS] == reducing.shape[1]:
            r[R_ADDRESS] = 0
            r[R_PHASE] = r[R_CLOSES] * (SPARSE if r[R_OUTLIERS] > 0 else SCALE)
    elif phase == SPARSE:
        for j in range(working):
            if coded[0, j] == 1:
                x, w = _value(product[0, j]), _value(product[1, j])
                if coded[1, j] == 1:
                    x = _mac(scale, x, NEGATIVE_ZERO)
                if coded[2, j] == 1:
                    w = _mac(_value(work[W_SCALE, j]), w, NEGATIVE_ZERO)
                sums[S_OUTSIDE, j] = _mac(x, w, sums[S_OUTSIDE, j])
                totals[T_SPARSE] += 1
                totals[T_DEQUANTS] += coded[1, j] + coded[2, j]
        r[R_OUTLIERS] -= 1
        if r[R_OUTLIERS] == 0:
            r[R_PHASE] = SCALE
    elif phase == SCALE:
        for j in range(working):
            sums[S_JOINT, j] = _mac(scale, _value(work[W_SCALE, j]), NEGATIVE_ZERO)
        totals[T_SCALES] += working
        r[R_PHASE] = MERGE
    else:
        negative = -_value(scales[1])
        for j in range(macs):
            if j >= working:
                sums[S_Y, j] = 0
            elif phase == MERGE:
                sums[S_Y, j] = _mac(sums[S_ACC, j], sums[S_JOINT, j], sums[S_OUTSIDE, j])
            elif phase == SHIFT:
                sums[S_Y, j] = _mac(negative, _value(work[W_SUM, j]), sums[S_Y, j])
            else:
                sums[S_Y, j] = _mac(_value(work[W_BIAS, j]), ONE, sums[S_Y, j])
        if phase == MERGE:
            totals[T_ADDS] += working
        shifts, biases = r[R_SHIFTS] * np.int64(phase == MERGE), r[R_BIASES] * np.int64(phase < BIAS)
        r[R_PHASE] = SHIFT if shifts else BIAS if biases else IDLE
        if r[R_PHASE] == IDLE:
            r[R_VALID] = 1
            for j in range(macs):
                overflow[j] = np.uint8(not np.isfinite(sums[S_Y, j]))
                totals[T_OVERFLOWS] += overflow[j]
