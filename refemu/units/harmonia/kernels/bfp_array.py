"""One edge of the cycle-accurate array, for compiled bfp_pe_array_clocked and products. [harmonia §IV-A, §IV-B]

Register files hold the number of an entry, not its lanes: x (entries, rows, lanes) int16, signed, and x_exp
(entries, rows, groups) are activations, y and y_sign (entries, columns, lanes) uint8, y_exp and factor (entries,
columns, groups) weights. columns: int64 (columns, C_FIELDS); pes: int64 (rows, columns, P_FIELDS); acc: float32
(rows, columns); nibbles: int16 (columns, 4, 32), what the sub-PEs of a column read of its weights, slot by slot.
"""

import numpy as np

from refemu.arith.jit import callee, inlined, kernel
from refemu.arith.kernels.groups import group_term
from refemu.arith.kernels.scalars import canonical

C_ARRIVED, C_WAITING, C_B_WAITING, C_LEFT = range(4)
C_NEXT_MODE, C_NEXT_CLEAR, C_NEXT_LAST, C_NEXT_ROWS, C_NEXT_COLUMNS, C_NEXT_GROUPS = range(4, 10)
C_MODE, C_CLEAR, C_LAST, C_ROWS, C_COLUMNS, C_GROUPS, C_NEXT_B, C_B, C_SUB_PES = range(10, 19)
C_FIELDS, ENTRY = 19, 6
P_NEXT, P_CURRENT, P_SLOT, P_MODE, P_FLAGS, P_LATCHED = range(6)
P_FIELDS = P_LATCHED + 4
E_AT, E_MODE, E_CLEAR, E_LAST, E_ROWS, E_COLUMNS, E_GROUPS = range(7)
E_FIELDS = 7
O_PARALLEL, O_OVERLAP, O_PARTIAL16, O_PRODUCT16 = range(4)
T_CYCLES, T_COMPUTE, T_MACS, T_MACS4X8, T_PSUMS, T_FUSIONS, T_CONVERTS = range(7)
T_MULTS, T_ADDS, T_HOPS, T_BROADCASTS, T_BUSY, T_LOST, T_MISSED = range(7, 14)
TOTALS = 14
M8W4, M8M8 = 0, 2
LANES, SLOTS = 32, 4
LOWEST = 44  # magnitude of the lowest exponent of POINT
POWERS = np.ldexp(1.0, np.arange(-LOWEST, LOWEST))
POINT = np.array([-22, -40, -44])  # 14 + m of each block floating point operand, by mode


@kernel
def edge(options, entry, b_at, x, x_exp, y, y_sign, y_exp, factor, columns, pes, acc, nibbles, totals):
    """Advance an edge. entry: (E_FIELDS,), number -1 for none; b_at: (columns,), numbers of new weights, -1 for none.

    Returns the column that leaves, or -1. Columns are visited from the right, so that a neighbour still has what it
    had.
    """
    leaves, busy, held = -1, totals[T_BUSY], holds(columns)
    totals[T_CYCLES] += 1
    for c in range(columns.shape[0] - 1, -1, -1):
        column = columns[c]
        column[C_SUB_PES] = 0
        begins = np.int64(column[C_LEFT] == 0) & column[C_WAITING] & column[C_B_WAITING]
        if begins:
            _begin(column, y, y_sign, c, nibbles[c])
        if column[C_LEFT] > 0:
            _column(options, begins, c, x, x_exp, y_exp, factor, column, pes, acc, nibbles[c], totals)
            column[C_LEFT] -= 1
            if column[C_LEFT] == 0 and column[C_LAST] > 0:
                totals[T_MISSED] += np.int64(leaves >= 0)
                leaves = max(leaves, c)
        _arrive(options, entry, held, c, columns, pes, totals)
        if b_at[c] >= 0:
            if column[C_B_WAITING]:
                totals[T_LOST] += 1
            else:
                column[C_B_WAITING], column[C_NEXT_B] = 1, b_at[c]
                totals[T_BROADCASTS] += 1
    totals[T_COMPUTE] += np.int64(totals[T_BUSY] > busy)
    return leaves


@callee
def holds(columns):
    """1 if a column holds a group."""
    held = np.int64(0)
    for c in range(columns.shape[0]):
        held |= columns[c, C_ARRIVED] | columns[c, C_WAITING] | np.int64(columns[c, C_LEFT] > 0)
    return held


@inlined
def _begin(column, y, y_sign, c, nibbles):
    """The next entry becomes the current one; its weights as signed operands of 4 bits, slot by slot."""
    column[C_WAITING], column[C_B_WAITING] = 0, 0
    for field in range(ENTRY):
        column[C_MODE + field] = column[C_NEXT_MODE + field]
    column[C_B] = column[C_NEXT_B]
    mode = column[C_MODE]
    per = 1 + np.int64(mode == M8M8)
    column[C_LEFT] = column[C_GROUPS] * per
    codes, signs = y[column[C_B], c], y_sign[column[C_B], c]
    for slot in range(column[C_LEFT]):
        first = slot // per * LANES
        shift = np.int64(4 * (per - 1 - slot % per))
        for k in range(LANES):
            value = np.int64(codes[first + k]) >> shift & 15
            if mode == M8W4:
                value -= 2 * (value & 8)
            elif signs[first + k]:
                value = -value
            nibbles[slot, k] = value


@inlined
def _column(options, begins, c, x, x_exp, y_exp, factor, column, pes, acc, nibbles, totals):
    """Run a slot of the PEs of a column."""
    mode, parallel = column[C_MODE], options[O_PARALLEL]
    per = 1 + np.int64(mode == M8M8)
    slots = column[C_GROUPS] * per
    done = slots - column[C_LEFT]
    group, low = done // per, done % per
    b_exp = np.int64(max(y_exp[column[C_B], c, group], 1)) * np.int64(mode != M8W4) + POINT[mode]
    scale, works = factor[column[C_B], c, group], np.int64(0)
    for r in range(pes.shape[0]):
        if column[C_ROWS] >> r & 1 == 0:
            continue
        pe = pes[r, c]
        if begins:
            pe[P_CURRENT] = pe[P_NEXT]
        if low:
            pe[P_SLOT] += 1
        else:
            fresh = (column[C_CLEAR] & begins) | np.int64(mode != pe[P_MODE]) | np.int64(pe[P_SLOT] == SLOTS - 1)
            pe[P_SLOT] = (pe[P_SLOT] + 1) * (1 - (fresh | (parallel & begins)))
        pe[P_MODE] = mode
        if begins & column[C_CLEAR]:
            acc[r, c], pe[P_FLAGS] = np.float32(0), 0
        values = x[pe[P_CURRENT], r]
        at = _seat(mode, pe[P_SLOT])
        if parallel:
            if begins:
                for slot in range(slots):
                    place = _seat(mode, slot)
                    pe[P_LATCHED + place] = dot(values[slot // per * LANES :], nibbles[slot])
                    works |= 1 << place
                totals[T_PSUMS] += slots
        else:
            pe[P_LATCHED + at] = dot(values, nibbles[done])
            works |= (1 << at) * np.int64(works == 0)
            totals[T_PSUMS] += 1
        totals[T_MACS4X8] += LANES * (slots * begins * parallel + 1 - parallel)
        totals[T_BUSY] += 1
        if low == per - 1:
            p = pe[P_LATCHED + at]
            if mode == M8M8:
                p += 16 * pe[P_LATCHED + at - 2]
            exact = p * POWERS[max(np.int64(x_exp[pe[P_CURRENT], r, group]), 1) + b_exp + LOWEST]
            term, flags = group_term(exact, scale, mode == M8W4, options[O_PARTIAL16], options[O_PRODUCT16])
            total = canonical(np.float32(acc[r, c] + term))
            acc[r, c] = total
            pe[P_FLAGS] |= flags | (np.int64(total != total) << 2)
            totals[T_CONVERTS] += 1
            totals[T_ADDS] += 1
            totals[T_MULTS] += np.int64(mode == M8W4)
            totals[T_FUSIONS] += per - 1
        totals[T_MACS] += LANES * (1 - low)
    column[C_SUB_PES] = works


@callee
def dot(x, y):
    """Exact sum of 32 products; the compiler does not know the trip count, the lanes of y, so it vectorises."""
    total = np.int32(0)
    for k in range(y.size & 63):
        total = np.int32(total + np.int32(np.int32(x[k]) * np.int32(y[k])))
    return np.int64(total)


@inlined
def _seat(mode, slot):
    """The sub-PE of a slot of the pass: in M8M8 the wrappers take turns."""
    wide = np.int64(mode == M8M8)
    return slot * (1 - wide) + (slot // 2 + 2 * (slot & 1)) * wide


@inlined
def _arrive(options, entry, held, c, columns, pes, totals):
    """Take activations into column c from its neighbour, or into column 0 from the ports."""
    column = columns[c]
    column[C_ARRIVED] = 0
    comes = np.int64(entry[E_AT] >= 0)
    blocked = np.int64(0)
    if c > 0:
        comes = columns[c - 1, C_ARRIVED] & np.int64(columns[c - 1, C_NEXT_COLUMNS] >> c > 0)
    else:
        blocked = np.int64(entry[E_CLEAR] > 0) & held & (1 - options[O_OVERLAP])
    if comes == 0:
        return
    if column[C_WAITING] | blocked:
        totals[T_LOST] += 1
        return
    for field in range(ENTRY):
        if c > 0:
            column[C_NEXT_MODE + field] = columns[c - 1, C_NEXT_MODE + field]
        else:
            column[C_NEXT_MODE + field] = entry[E_MODE + field]
    column[C_ARRIVED], column[C_WAITING] = 1, column[C_NEXT_COLUMNS] >> c & 1
    for r in range(pes.shape[0]):
        if column[C_NEXT_ROWS] >> r & 1:
            if c > 0:
                pes[r, c, P_NEXT] = pes[r, c - 1, P_NEXT]
            else:
                pes[r, c, P_NEXT] = entry[E_AT]
            totals[T_HOPS] += column[C_NEXT_GROUPS] * np.int64(c > 0)


@kernel
def run(options, entries, b_valid, stays, x, x_exp, y, y_sign, y_exp, factor, columns, pes, acc, leaves, totals):
    """Every edge of a device, registers after each: columns, pes and acc (edges, ...), leaves (edges,).

    entries: (edges, E_FIELDS); b_valid: (edges, columns); stays: (edges,), 1 where the array is held. Registers hold
    edge numbers plus 1.
    """
    now = np.zeros(columns.shape[1:], np.int64)
    registers, sums = np.zeros(pes.shape[1:], np.int64), np.zeros(acc.shape[1:], np.float32)
    registers[:, :, P_SLOT] = SLOTS - 1
    nibbles, b_at = np.zeros((now.shape[0], SLOTS, LANES), np.int16), np.empty(now.shape[0], np.int64)
    for e in range(entries.shape[0]):
        for c in range(b_at.size):
            b_at[c] = (e + 2) * b_valid[e, c] - 1
        if stays[e]:
            totals[T_CYCLES] += 1
            leaves[e], now[:, C_SUB_PES] = -1, 0
        else:
            leaves[e] = edge(
                options, entries[e], b_at, x, x_exp, y, y_sign, y_exp, factor, now, registers, sums, nibbles, totals
            )
        columns[e], pes[e], acc[e] = now, registers, sums


@kernel
def multiply(options, array, plan, tiles, x, x_exp, y, y_sign, y_exp, factor, sums, flags, totals):
    """Every edge of a product: sums, float32 (M, N), and flags of the columns as they leave.

    array: rows and columns. plan: (entries, 4) edge, first group, groups and mode. tiles: (tiles, 5) edge, top, left,
    rows and columns. x and y hold the entries of a block of rows, or columns, after each other.
    """
    rows, columns = array
    control, pes = np.zeros((columns, C_FIELDS), np.int64), np.zeros((rows, columns, P_FIELDS), np.int64)
    pes[:, :, P_SLOT] = SLOTS - 1
    acc, nibbles = np.zeros((rows, columns), np.float32), np.zeros((columns, SLOTS, LANES), np.int16)
    entry, b_at, used = np.zeros(E_FIELDS, np.int64), np.full(columns, -1), np.zeros(columns, np.int64)
    tile, place, count = 0, 0, plan.shape[0]
    line = np.full(columns, -1)
    last_edge = tiles[-1, 0] + plan[-1, 0] + plan[-1, 2] * (1 + (plan[-1, 3] == M8M8)) + columns
    for now in range(last_edge):
        for c in range(columns - 1, 0, -1):
            line[c], used[c] = line[c - 1], used[c - 1]
        line[0], entry[E_AT] = -1, -1
        if tile < tiles.shape[0] and now == tiles[tile, 0] + plan[place, 0]:
            top, left = tiles[tile, 1] // rows, tiles[tile, 2] // columns
            entry[E_AT], entry[E_MODE], entry[E_GROUPS] = top * count + place, plan[place, 3], plan[place, 2]
            entry[E_CLEAR], entry[E_LAST] = np.int64(place == 0), (tile + 1) * np.int64(place == count - 1)
            entry[E_ROWS], entry[E_COLUMNS] = (1 << tiles[tile, 3]) - 1, (1 << tiles[tile, 4]) - 1
            line[0], used[0] = left * count + place, tiles[tile, 4]
            place += 1
            if place == count:
                tile, place = tile + 1, 0
        for c in range(columns):
            b_at[c] = (line[c] + 1) * np.int64(c < used[c]) - 1
        c = edge(options, entry, b_at, x, x_exp, y, y_sign, y_exp, factor, control, pes, acc, nibbles, totals)
        if c >= 0:
            done = tiles[control[c, C_LAST] - 1]
            for r in range(done[3]):
                sums[done[1] + r, done[2] + c], flags[done[1] + r, done[2] + c] = acc[r, c], pes[r, c, P_FLAGS]
