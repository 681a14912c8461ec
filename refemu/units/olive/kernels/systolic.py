"""One edge of the systolic array, for compiled olive_systolic_clocked [olive §4.3].

Registers are arrays (rows, columns) of elements as wide as the operands, in the top left of larger arrays: int32 (3,
rows, columns) for valid bits, exponents and integers of operands, int64 for accumulators and flags.
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
def compute(rows, columns, saturate, west, north, a, b, acc, flags):
    """Operands move east and south, elements with two of them multiply and add.

    west, north: (3, lines) what enters: valid, exponent, integer. Returns products and those that left 32 bits. Rows
    are visited from the south, so that the registers above are still those of the edge before.
    """
    macs, overflows = np.int64(0), np.int64(0)
    for i in range(rows - 1, -1, -1):
        for field in range(3):
            _move(columns, i, west[field, i], north[field], a[field], b[field])
        for j in range(columns):
            used = a[0, i, j] & b[0, i, j]
            # A shift of 40 has the low 32 bits, the sign and the overflow of any longer one, and fits int64.
            product = np.int64(a[2, i, j] * b[2, i, j]) & -np.int64(used)
            total = acc[i, j] + (product << np.int64(min(a[1, i, j] + b[1, i, j], np.int32(40))))
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
def halves(rows, columns, signs, a, b, partial):
    """The four products of halves of every 8-bit element that multiplies. signs: 1 if both halves carry the sign."""
    for i in range(rows):
        for j in range(columns):
            used = a[0, i, j] & b[0, i, j]
            x, y = a[2, i, j] * used, b[2, i, j] * used
            flip_x, flip_y = signs & np.int64(x < 0), signs & np.int64(y < 0)
            sign_x, sign_y = 1 - 2 * flip_x, 1 - 2 * flip_y
            x, y = x * sign_x, y * sign_y
            for part in range(4):
                left = ((x >> 4) * (1 - (part >> 1)) + (x & 15) * (part >> 1)) * sign_x
                right = ((y >> 4) * (1 - (part & 1)) + (y & 15) * (part & 1)) * sign_y
                partial[4 * (i * columns + j) + part] = left * right
