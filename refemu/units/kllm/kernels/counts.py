"""Counting indices of four bits by columns [kllm §III-B]: one-hot words added in bit planes, sixteen counters at once.

An index i is the word 1 << i, so the counter of i is bit i of all planes: plane p has its bit p. A full adder
reduces three words to a sum and a carry; eight members take seven adders. When a group is counted, an 8 x 8
transposition of bits turns its planes into counters of eight bits.
"""

import numpy as np

from refemu.arith.jit import callee, inlined
from refemu.arith.kernels.matmul import TILE
from refemu.arith.kernels.scalars import prefetch

EIGHT = 8  # members that an adder tree takes
CHUNK = 248  # most members whose counts fit in eight planes
COUNTERS = 16
LINE = 64  # bytes of a cache line
U8, U16, U64 = np.uint8, np.uint16, np.uint64


@callee
def sort_positions(index, mask, amounts, filler, order, starts, sizes):
    """order <- positions that are not masked, group by group, each padded to a multiple of eight with `filler`.

    index (K,): groups are its values; with `amounts` (0 or 1) its bits: a position is in group g if bit g is set.
    Group g of `sizes[g]` positions, ascending, starts at starts[g].
    """
    sizes[:] = 0
    for k in range(index.size):
        if mask[k] == 0:
            i = np.int64(index[k])
            if amounts == 0:
                sizes[i] += 1
            else:
                for g in range(sizes.size):
                    sizes[g] += (i >> g) & 1
    starts[0] = 0
    for g in range(sizes.size):
        starts[g + 1] = starts[g] + (sizes[g] + EIGHT - 1) // EIGHT * EIGHT
        for k in range(starts[g] + sizes[g], starts[g + 1]):
            order[k] = filler
        sizes[g] = 0
    for k in range(index.size):
        if mask[k] == 0:
            i = np.int64(index[k])
            if amounts == 0:
                order[starts[i] + sizes[i]] = k
                sizes[i] += 1
            else:
                for g in range(sizes.size):
                    if (i >> g) & 1:
                        order[starts[g] + sizes[g]] = k
                        sizes[g] += 1


@callee
def count_members(members, ahead, index, starts, places, n0, width, planes, small):
    """small (16 * TILE) uint8 <- how many of at most `CHUNK` members k have each index at index[k, n0 + n].

    members: a multiple of eight rows; zero rows at the end of `index` are subtracted from the counter of 0. Outliers,
    places[starts[k]] to places[starts[k + 1]] of row k, count nowhere. planes: work space of 8 * TILE words. ahead:
    the members after the first eight, and those that are counted next; their rows are prefetched.
    """
    _clear(planes, width)
    filler = np.int64(0)
    for k in range(0, members.size, EIGHT):
        for a in range(k, min(k + EIGHT, ahead.size)):
            for n in range(n0, n0 + width, LINE):
                prefetch(index, np.int64(ahead[a]), np.int64(n))
        _add_eight(
            _row(index, members[k], n0, width),
            _row(index, members[k + 1], n0, width),
            _row(index, members[k + 2], n0, width),
            _row(index, members[k + 3], n0, width),
            _row(index, members[k + 4], n0, width),
            _row(index, members[k + 5], n0, width),
            _row(index, members[k + 6], n0, width),
            _row(index, members[k + 7], n0, width),
            planes,
            width,
        )
    for k in range(max(members.size - EIGHT + 1, 0), members.size):
        filler += np.int64(members[k] == index.shape[0] - 1)
    _transpose(planes, U16(filler), small, width)
    if places.size > 0:
        for k in range(members.size - filler):
            for j in range(starts[members[k]], starts[members[k] + 1]):
                if n0 <= places[j] < n0 + width:
                    small[np.int64(index[members[k], places[j]]) * TILE + places[j] - n0] -= U8(1)


@inlined
def _row(index, k, n0, width):
    return index[k, n0 : n0 + width]


@inlined
def _clear(planes, width):
    for n in range(width):
        for p in range(8):
            planes[n + p * TILE] = U16(0)


@callee
def _hot(i):
    """1 << i, in sixteen bits."""
    return U16(U64(1) << U64(i & U8(15)))


@callee
def _carry(a, b, x, c):
    """The carry of a + b + c, where x = a ^ b."""
    return U16(U16(a & b) | U16(c & x))


@inlined
def _add_eight(r0, r1, r2, r3, r4, r5, r6, r7, planes, width):
    """Planes += the one-hot words of eight rows."""
    for n in range(width):
        ones, a, b = planes[n], _hot(r0[n]), _hot(r1[n])
        x = U16(a ^ b)
        t, ones = _carry(a, b, x, ones), U16(ones ^ x)
        a, b = _hot(r2[n]), _hot(r3[n])
        x = U16(a ^ b)
        u, ones = _carry(a, b, x, ones), U16(ones ^ x)
        x, twos = U16(t ^ u), planes[n + TILE]
        f, twos = _carry(t, u, x, twos), U16(twos ^ x)
        a, b = _hot(r4[n]), _hot(r5[n])
        x = U16(a ^ b)
        t, ones = _carry(a, b, x, ones), U16(ones ^ x)
        a, b = _hot(r6[n]), _hot(r7[n])
        x = U16(a ^ b)
        u, planes[n] = _carry(a, b, x, ones), U16(ones ^ x)
        x = U16(t ^ u)
        g, planes[n + TILE] = _carry(t, u, x, twos), U16(twos ^ x)
        x, fours = U16(f ^ g), planes[n + 2 * TILE]
        c, planes[n + 2 * TILE] = _carry(f, g, x, fours), U16(fours ^ x)
        p = planes[n + 3 * TILE]
        c, planes[n + 3 * TILE] = U16(p & c), U16(p ^ c)
        p = planes[n + 4 * TILE]
        c, planes[n + 4 * TILE] = U16(p & c), U16(p ^ c)
        p = planes[n + 5 * TILE]
        c, planes[n + 5 * TILE] = U16(p & c), U16(p ^ c)
        p = planes[n + 6 * TILE]
        c, planes[n + 6 * TILE] = U16(p & c), U16(p ^ c)
        planes[n + 7 * TILE] = U16(planes[n + 7 * TILE] ^ c)


@callee
def _low(a, b, s, m):
    """The fields `m` of a, and s bits higher those of b."""
    return U16(U16(a & m) | U16(U16(b & m) << s))


@callee
def _high(a, b, s, m):
    """The fields outside `m`: those of a, s bits lower, and those of b."""
    return U16(U16(U16(a >> s) & m) | U16(b & U16(~m)))


@callee
def _transpose(planes, filler, small, width):
    """small <- the counters whose bits are in the planes, less `filler` for index 0; one byte of a word at a time."""
    for n in range(width):
        a0, a1, a2, a3 = planes[n], planes[n + TILE], planes[n + 2 * TILE], planes[n + 3 * TILE]
        a4, a5, a6, a7 = planes[n + 4 * TILE], planes[n + 5 * TILE], planes[n + 6 * TILE], planes[n + 7 * TILE]
        m, s = U16(0x0F0F), U16(4)
        b0, b1, b2, b3 = _low(a0, a4, s, m), _low(a1, a5, s, m), _low(a2, a6, s, m), _low(a3, a7, s, m)
        b4, b5, b6, b7 = _high(a0, a4, s, m), _high(a1, a5, s, m), _high(a2, a6, s, m), _high(a3, a7, s, m)
        m, s = U16(0x3333), U16(2)
        a0, a1, a2, a3 = _low(b0, b2, s, m), _low(b1, b3, s, m), _high(b0, b2, s, m), _high(b1, b3, s, m)
        a4, a5, a6, a7 = _low(b4, b6, s, m), _low(b5, b7, s, m), _high(b4, b6, s, m), _high(b5, b7, s, m)
        m, s = U16(0x5555), U16(1)
        b0, b1 = U16(_low(a0, a1, s, m) - filler), _high(a0, a1, s, m)
        b2, b3 = _low(a2, a3, s, m), _high(a2, a3, s, m)
        b4, b5, b6, b7 = _low(a4, a5, s, m), _high(a4, a5, s, m), _low(a6, a7, s, m), _high(a6, a7, s, m)
        small[n], small[n + TILE] = U8(b0 & 255), U8(b1 & 255)
        small[n + 2 * TILE], small[n + 3 * TILE] = U8(b2 & 255), U8(b3 & 255)
        small[n + 4 * TILE], small[n + 5 * TILE] = U8(b4 & 255), U8(b5 & 255)
        small[n + 6 * TILE], small[n + 7 * TILE] = U8(b6 & 255), U8(b7 & 255)
        small[n + 8 * TILE], small[n + 9 * TILE] = U8(b0 >> 8), U8(b1 >> 8)
        small[n + 10 * TILE], small[n + 11 * TILE] = U8(b2 >> 8), U8(b3 >> 8)
        small[n + 12 * TILE], small[n + 13 * TILE] = U8(b4 >> 8), U8(b5 >> 8)
        small[n + 14 * TILE], small[n + 15 * TILE] = U8(b6 >> 8), U8(b7 >> 8)
