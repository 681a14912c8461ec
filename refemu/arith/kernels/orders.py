"""Sums in any order of `orders`, and the exact accumulator."""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.scalars import FP16, FP32, FP32_FMA, canonical, fma16, fma32, round16

ZERO, START, PRODUCT, STEP, ADD = range(5)  # operations of `orders.lower`
STRIP = 256  # outputs that an order's program works on at once
CHUNK = 1024  # exact products, below 2**32 each, that may be added to OFFSET without reaching its next power of two
OFFSET, OFFSET_BITS = np.float64(float.fromhex("0x1.8p44")), np.int64(0x42B8000000000000)  # its ulp is 2**-8
OFFSET_FINE, OFFSET_FINE_BITS = np.float64(float.fromhex("0x1.8p4")), np.int64(0x4038000000000000)  # its ulp is 2**-48
LARGE = np.float64(4)


@kernel
def run_program(rows, a, b, out, slots, acc, start):
    """out (M, N) <- a program of `orders.lower` over products a[m, k, n or 0] * b[k, n]; slots (any, STRIP)."""
    left = np.empty(STRIP, np.float32)
    for m in range(out.shape[0]):
        for n0 in range(0, out.shape[1], STRIP):
            width = min(STRIP, out.shape[1] - n0)
            for i in range(rows.shape[0]):
                op, s, k = rows[i, 0], slots[rows[i, 1]], rows[i, 2]
                if op == ADD:
                    _add(s, slots[k], width, acc)
                elif op == ZERO:
                    s[:width] = np.float32(0)
                elif op == START:
                    s[:width] = start
                else:
                    spread(a[m, k], n0, left, width)
                    step_term(s, left, b[k, n0 : n0 + width], width, acc, op)
            for n in range(width):
                out[m, n0 + n] = canonical(slots[0, n])


@callee
def _add(s, x, width, acc):
    if acc <= FP32_FMA:
        for n in range(width):
            s[n] = s[n] + x[n]
    else:
        for n in range(width):
            s[n] = round16(s[n] + x[n])


@callee
def step_term(s, a, b, width, acc, op):
    """A product into slot `s`, or one accumulation onto it."""
    if op == PRODUCT and acc <= FP32_FMA:
        for n in range(width):
            s[n] = a[n] * b[n]
    elif op == PRODUCT:
        for n in range(width):
            s[n] = round16(a[n] * b[n])
    elif acc == FP32:
        for n in range(width):
            s[n] = s[n] + a[n] * b[n]
    elif acc == FP32_FMA:
        for n in range(width):
            s[n] = fma32(a[n], b[n], s[n])
    elif acc == FP16:
        for n in range(width):
            s[n] = round16(s[n] + round16(a[n] * b[n]))
    else:
        for n in range(width):
            s[n] = fma16(a[n], b[n], s[n])


@kernel
def run_program_of_terms(rows, x, slots):
    """Slot 0 <- the program `rows` over the terms x (K, N) themselves; slots (any, N), float32 or float64 as x is."""
    for i in range(rows.shape[0]):
        op, s, k = rows[i, 0], slots[rows[i, 1]], rows[i, 2]
        if op == ADD:
            plus(slots[k], s)
        elif op == STEP:
            plus(x[k], s)
        elif op == PRODUCT:
            copy_all(x[k], s)
        else:
            clear_all(s)


@callee
def plus(x, out):
    """out += x."""
    for i in range(out.size):
        out[i] = out[i] + x[i]


@callee
def copy_all(x, out):
    """out <- x."""
    for i in range(out.size):
        out[i] = x[i]


@callee
def clear_all(out):
    """out <- +0."""
    for i in range(out.size):
        out[i] = 0


@kernel
def total_rows(x, terms, out):
    """out (R,) += the first `terms` of each row of x (R, ...) in sequence, four rows at a time: additions overlap."""
    rows = out.size - out.size % 4
    for r in range(0, rows, 4):
        s0, s1, s2, s3 = out[r], out[r + 1], out[r + 2], out[r + 3]
        for k in range(terms):
            s0, s1, s2, s3 = s0 + x[r, k], s1 + x[r + 1, k], s2 + x[r + 2, k], s3 + x[r + 3, k]
        out[r], out[r + 1], out[r + 2], out[r + 3] = s0, s1, s2, s3
    for r in range(rows, out.size):
        s0 = out[r]
        for k in range(terms):
            s0 = s0 + x[r, k]
        out[r] = s0


@callee
def spread(x, n0, out, width):
    """out <- x[n0:], or the one element of x everywhere."""
    if x.size == 1:
        for n in range(width):
            out[n] = x[0]
    else:
        part = x[n0 : n0 + width]
        for n in range(width):
            out[n] = part[n]


@kernel
def exact_limbs(a, b, start, low, middle, high):
    """Limbs of 32 bits of start + the exact sums of products a[m, k, n or 0] * b[k, n] of fp16 values; unit 2**-48.

    Two float64 make a sum. Adding a product to `coarse`, whose ulp is 2**-8, loses at most 2**-9; what it loses is a
    multiple of 2**-48 and is added to `fine`. Both stay exact for CHUNK terms. Returns whether a sum was not finite.
    """
    coarse, fine = np.empty(STRIP, np.float64), np.empty(STRIP, np.float64)
    strange = np.int64(0)
    for m in range(low.shape[0]):
        for n0 in range(0, low.shape[1], STRIP):
            n1 = min(n0 + STRIP, low.shape[1])
            coarse[:] = OFFSET + np.float64(start)
            fine[:] = np.float64(start) - (OFFSET + np.float64(start) - OFFSET)
            for k0 in range(0, b.shape[0], CHUNK):
                k1 = min(k0 + CHUNK, b.shape[0])
                if a.shape[2] == 1:
                    _add_shared(a[m, k0:k1], b[k0:k1], n0, n1, coarse, fine)
                else:
                    _add_each(a[m, k0:k1], b[k0:k1], n0, n1, coarse, fine)
                strange |= _carry(coarse, fine, low[m, n0:n1], middle[m, n0:n1], high[m, n0:n1])
                coarse[:] = OFFSET
                fine[:] = np.float64(0)
    return strange != np.int64(0)


@callee
def _add_shared(a, b, n0, n1, coarse, fine):
    """Products of a[k, 0] and b[k, n0:n1], four terms at a time."""
    terms = b.shape[0] - b.shape[0] % 4
    for k in range(0, terms, 4):
        p0, p1, p2, p3 = a[k, 0], a[k + 1, 0], a[k + 2, 0], a[k + 3, 0]
        b0, b1, b2, b3 = b[k, n0:n1], b[k + 1, n0:n1], b[k + 2, n0:n1], b[k + 3, n0:n1]
        for n in range(b0.size):
            s0, e = coarse[n], fine[n]
            x0, x1, x2, x3 = (
                np.float64(p0 * b0[n]),
                np.float64(p1 * b1[n]),
                np.float64(p2 * b2[n]),
                np.float64(p3 * b3[n]),
            )
            s1 = s0 + x0
            s2 = s1 + x1
            s3 = s2 + x2
            s4 = s3 + x3
            coarse[n] = s4
            fine[n] = e + (((x0 - (s1 - s0)) + (x1 - (s2 - s1))) + ((x2 - (s3 - s2)) + (x3 - (s4 - s3))))
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k, 0], b[k, n0:n1]
        for n in range(b0.size):
            s0, x0 = coarse[n], np.float64(p0 * b0[n])
            s1 = s0 + x0
            coarse[n] = s1
            fine[n] = fine[n] + (x0 - (s1 - s0))


@callee
def _add_each(a, b, n0, n1, coarse, fine):
    """Products of a[k, n0:n1] and b[k, n0:n1]."""
    for k in range(b.shape[0]):
        a0, b0 = a[k, n0:n1], b[k, n0:n1]
        for n in range(b0.size):
            s0, x0 = coarse[n], np.float64(a0[n] * b0[n])
            s1 = s0 + x0
            coarse[n] = s1
            fine[n] = fine[n] + (x0 - (s1 - s0))


@callee
def _carry(coarse, fine, low, middle, high):
    """Sums of a chunk to limbs, the lower two of which are then below 2**32; not 0 if a sum was not finite."""
    strange = np.int64(0)
    for n in range(low.size):
        strange |= np.int64(not abs(fine[n]) < LARGE)  # an infinity in `coarse` leaves NaN here
        upper = np.int64(np.float64(coarse[n]).view(np.int64) - OFFSET_BITS)  # in units of 2**-8
        lower = np.int64(np.float64(fine[n] + OFFSET_FINE).view(np.int64) - OFFSET_FINE_BITS)  # of 2**-48
        low[n] += lower & np.int64(0xFFFFFFFF)
        middle[n] += (lower >> np.int64(32)) + ((upper & np.int64(0xFFFFFF)) << np.int64(8)) + (low[n] >> np.int64(32))
        low[n] &= np.int64(0xFFFFFFFF)
        high[n] += (upper >> np.int64(24)) + (middle[n] >> np.int64(32))
        middle[n] &= np.int64(0xFFFFFFFF)
    return strange
