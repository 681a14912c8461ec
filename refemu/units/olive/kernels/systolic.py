"""One edge of the systolic array, for compiled olive_systolic_clocked and for whole products on it [olive §4.3].

Registers are arrays (rows, columns) of elements as wide as the operands, in the top left of larger arrays: int32 for
operands, int64 for accumulators and flags.
"""

import numpy as np

from refemu.arith.jit import callee, inlined, kernel

HIGH = (1 << 31) - 1


@callee
def drain(rows, columns, acc, flags, south, south_flags):
    """Accumulators move down by one row; the bottom row leaves, zeros enter at the top."""
    for j in range(columns):
        south[j], south_flags[j] = acc[rows - 1, j], flags[rows - 1, j]
    for i in range(rows - 1, 0, -1):
        for j in range(columns):
            acc[i, j], flags[i, j] = acc[i - 1, j], flags[i - 1, j]
    for j in range(columns):
        acc[0, j], flags[0, j] = 0, 0


@callee
def compute(rows, columns, saturate, west, north, a_valid, a_exp, a_int, b_valid, b_exp, b_int, acc, flags):
    """Operands move east and south, elements with two of them multiply and add.

    west, north: (3, lines) what enters: valid, exponent, integer. Returns products and those that left 32 bits. Rows
    are visited from the south, so that the registers above are still those of the edge before.
    """
    macs, overflows = np.int64(0), np.int64(0)
    for i in range(rows - 1, -1, -1):
        _move(columns, i, west[0, i], north[0], a_valid, b_valid)
        _move(columns, i, west[1, i], north[1], a_exp, b_exp)
        _move(columns, i, west[2, i], north[2], a_int, b_int)
        for j in range(columns):
            used = a_valid[i, j] & b_valid[i, j]
            # A shift of 40 has the low 32 bits, the sign and the overflow of any longer one, and fits int64.
            product = np.int64(a_int[i, j] * b_int[i, j]) & -np.int64(used)
            total = acc[i, j] + (product << np.int64(min(a_exp[i, j] + b_exp[i, j], np.int32(40))))
            wrapped = np.int64(np.int32(total))
            over = np.int64(wrapped != total)
            end = (total >> 63) ^ HIGH  # the end of the 32-bit range on its side
            acc[i, j] = wrapped ^ ((wrapped ^ end) & -(over & saturate))
            flags[i, j] |= over
            macs += used
            overflows += over
    return macs, overflows


@inlined
def _move(columns, i, enters, above, a, b):
    """One field of the operands of row i: from the west, and from the row above or the border."""
    for j in range(columns - 1, 0, -1):
        a[i, j] = a[i, j - 1]
    a[i, 0] = enters
    if i > 0:
        for j in range(columns):
            b[i, j] = b[i - 1, j]
    else:
        for j in range(columns):
            b[0, j] = above[j]


@kernel
def halves(rows, columns, signs, a_valid, a_int, b_valid, b_int, partial):
    """The four products of halves of every 8-bit element that multiplies. signs: 1 if both halves carry the sign."""
    for i in range(rows):
        for j in range(columns):
            used = a_valid[i, j] & b_valid[i, j]
            x, y = a_int[i, j] * used, b_int[i, j] * used
            flip_x, flip_y = signs & np.int64(x < 0), signs & np.int64(y < 0)
            sign_x, sign_y = 1 - 2 * flip_x, 1 - 2 * flip_y
            x, y = x * sign_x, y * sign_y
            for part in range(4):
                left = ((x >> 4) * (1 - (part >> 1)) + (x & 15) * (part >> 1)) * sign_x
                right = ((y >> 4) * (1 - (part & 1)) + (y & 15) * (part & 1)) * sign_y
                partial[4 * (i * columns + j) + part] = left * right


@kernel
def multiply(rows, columns, saturate, a_exp, a_int, b_exp, b_int, d, overflow, counts):
    """D = A x B by every edge of every tile: K and the skew of the grid, then its drains; operands already decoded.

    rows, columns: elements as wide as the operands. a_exp, a_int: (m, k); b_exp, b_int: (n, k). counts: edges of
    compute, of drain, products, those that left 32 bits, pairs decoded.
    """
    (m, k), n, grid = a_exp.shape, b_exp.shape[0], (rows, columns)
    a_valid, ae, ai = np.zeros(grid, np.int32), np.zeros(grid, np.int32), np.zeros(grid, np.int32)
    b_valid, be, bi = np.zeros(grid, np.int32), np.zeros(grid, np.int32), np.zeros(grid, np.int32)
    acc, flags = np.zeros(grid, np.int64), np.zeros(grid, np.int64)
    west, north = np.zeros((3, rows), np.int32), np.zeros((3, columns), np.int32)
    south, south_flags = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    for top in range(0, m, rows):
        for left in range(0, n, columns):
            for edge in range(k + rows + columns - 2):
                counts[4] += _enter(west, a_exp, a_int, top, min(rows, m - top), edge)
                counts[4] += _enter(north, b_exp, b_int, left, min(columns, n - left), edge)
                macs, overs = compute(
                    rows, columns, saturate, west, north, a_valid, ae, ai, b_valid, be, bi, acc, flags
                )
                counts[0] += 1
                counts[2] += macs
                counts[3] += overs
            for row in range(rows - 1, -1, -1):
                drain(rows, columns, acc, flags, south, south_flags)
                counts[1] += 1
                for j in range(min(columns, n - left)):
                    if top + row < m:
                        d[top + row, left + j], overflow[top + row, left + j] = south[j], south_flags[j] != 0


@inlined
def _enter(border, exponent, integer, first, used, edge):
    """Element `edge` - i of each line i, where it has one. Returns how many begin a pair, which is decoded then."""
    decodes, last = np.int64(0), exponent.shape[1] - 1
    for i in range(border.shape[1]):
        valid = np.int64(i < used) & np.int64(edge >= i) & np.int64(edge - i <= last)
        at, line = max(min(edge - i, last), 0), first + min(i, used - 1)
        border[0, i] = valid
        border[1, i], border[2, i] = exponent[line, at] * valid, integer[line, at] * valid
        decodes += valid * (1 - at & 1)
    return decodes
