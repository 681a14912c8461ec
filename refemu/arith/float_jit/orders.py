"""Sums in any order of `orders`, and the exact accumulator."""

import numpy as np

from refemu.arith.float_jit.scalars import FP16, FP32, FP32_FMA, canonical, fma16, fma32, round16
from refemu.arith.jit import kernel

ZERO, START, PRODUCT, STEP, ADD = range(5)  # operations of `orders.lower`
STRIP = 256  # outputs that an order's program works on at once


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


@kernel
def _add(s, x, width, acc):
    if acc <= FP32_FMA:
        for n in range(width):
            s[n] = s[n] + x[n]
    else:
        for n in range(width):
            s[n] = round16(s[n] + x[n])


@kernel
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


@kernel
def plus(x, out):
    """out += x."""
    for i in range(out.size):
        out[i] = out[i] + x[i]


@kernel
def copy_all(x, out):
    """out <- x."""
    for i in range(out.size):
        out[i] = x[i]


@kernel
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


@kernel
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
def exact_limbs(a, b, low, middle, high):
    """Limbs of 32 bits of the exact sums of products of fp16 words a[m, k, n or 0] * b[k, n]; unit 2**-48."""
    left = np.empty(low.shape[1], np.uint16)
    for m in range(low.shape[0]):
        lower, upper, top = low[m], middle[m], high[m]
        for k in range(b.shape[0]):
            spread(a[m, k], np.int64(0), left, left.size)
            _add_products(left, b[k], lower, upper)
            if k % 512 == 511 or k == b.shape[0] - 1:  # a term is below 2**53
                for n in range(lower.size):
                    upper[n] += lower[n] >> 32
                    lower[n] &= 0xFFFFFFFF
                    top[n] += upper[n] >> 32
                    upper[n] &= 0xFFFFFFFF


@kernel
def _add_products(a, b, lower, upper):
    """The products of words a[n] * b[n], each shifted into the limb that it starts in."""
    for n in range(lower.size):
        u, w = np.int64(a[n]), np.int64(b[n])
        x, y = (u >> 10) & 31, (w >> 10) & 31
        sign = np.int64(0) - ((u ^ w) >> 15)
        t = ((u & 1023) | (min(x, 1) << 10)) * ((w & 1023) | (min(y, 1) << 10))
        t = (t ^ sign) - sign  # the product of the significands, signed: below 2**22
        shift = max(x, 1) + max(y, 1) - 2
        beyond = shift >> 5  # 1 if it starts in the upper limb
        t = t << (shift & 31)
        lower[n] += t * (1 - beyond)
        upper[n] += t * beyond
