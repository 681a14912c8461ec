"""The accumulator of a PE, and sums of groups of block floating point. [harmonia §IV-B]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.matmul import PAD, add_block, add_row, block_fp32, same
from refemu.arith.kernels.orders import clear_all
from refemu.arith.kernels.scalars import canonical, round16, round16_of_f64, round16_times

DEPTH = 16  # terms that `grouped_row` adds in 16 bits
NIBBLE, FOUR, ZERO = np.uint8(15), np.uint8(4), np.int16(8)
GROUP_ROWS = 64  # rows of a tile of grouped sums
MIN_NORMAL = np.float32(float.fromhex("0x1p-14"))  # of fp16
INFINITY = np.float32(np.inf)
LEAST, MOST = (
    np.float32(float.fromhex("0x1p-24")),
    np.float32(0.5),
)  # powers whose products with 16 bits `round16_times` rounds


@kernel
def running_sums(x, clear, out):
    """out (D, T) <- the accumulator after every term of x (D, T), from +0 at the start and where `clear` is not 0."""
    for d in range(x.shape[0]):
        s = np.float32(0)
        for t in range(x.shape[1]):
            if clear[d, t]:
                s = np.float32(0)
            s = np.float32(s + x[d, t])
            out[d, t] = canonical(s)


@kernel
def accumulate_groups(p, power, factor, scaled, clear, partial16, product16, value, acc, flags):
    """The accumulator of a PE after every group of every device, all (devices, groups).

    p: exact sums, int32; power: float64 powers of two; factor: float32, used where `scaled`. value, acc <- float32;
    flags <- 1 for a partial sum beyond fp16, 2 for one that lost bits to a subnormal, 4 for NaN in the accumulator.
    """
    for d in range(p.shape[0]):
        s, sticky = np.float32(0), np.int64(0)
        for t in range(p.shape[1]):
            exact = np.float64(p[d, t]) * power[d, t]
            term, now = group_term(exact, factor[d, t], scaled[d, t], partial16, product16)
            if clear[d, t]:
                s, sticky = np.float32(0), np.int64(0)
            s = np.float32(s + term)
            sticky |= now | (np.int64(s != s) << 2)
            value[d, t], acc[d, t], flags[d, t] = term, canonical(s), sticky


@callee
def group_term(exact, factor, scaled, partial16, product16):
    """What the accumulator of a PE adds for one group, and its flags: 1 beyond fp16, 2 bits lost to a subnormal."""
    half, now = np.float32(exact), np.int64(0)
    if partial16:
        half = round16_of_f64(exact)
        lost = np.int64(abs(half) < MIN_NORMAL) & np.int64(np.float64(half) != exact)
        now = np.int64(abs(half) == INFINITY) | (lost << 1)
    term = half
    if scaled:
        product = np.float64(half) * np.float64(factor)
        term = np.float32(product)
        if product16:
            term = round16_of_f64(product)
    return canonical(term), now


@kernel
def grouped_tiles(a, powers, nibbles, narrow, wide, b_powers, scales, partial16, product16, depth, out, first, last):
    """Units `first` to `last` of out (M, N) <- `dot.grouped_matmul` in sequence: sums of groups stay below 2**24.

    a (M, K) float32 integers; nibbles, narrow or wide: the values of a `GroupPanels`, the others empty; depth:
    terms at a time whose sum fits 16 bits, or 0.
    """
    size, width, blocks = a.shape[1] // scales.shape[1], scales.shape[2], -(-out.shape[0] // GROUP_ROWS)
    most = min(GROUP_ROWS, out.shape[0])
    strip, small = np.empty((size, width + PAD), np.float32), np.empty((16, width + 2 * PAD), np.int16)
    sums = np.zeros((most, width + PAD), np.float32)
    parts = np.zeros((2, most, width + 2 * PAD), np.int16)
    in_halves = depth * 2 == size and partial16 and not product16 and b_powers.size == 0
    acc = np.empty((most, width + PAD), np.float32)
    short = np.empty((most, size), np.int16)
    for unit in range(first, last):
        panel, m0 = unit // blocks, unit % blocks * GROUP_ROWS
        rows = min(GROUP_ROWS, out.shape[0] - m0)
        fours = rows - rows % 4
        for m in range(rows):
            clear_all(acc[m])
        for g in range(scales.shape[1]):
            k0 = g * size
            if depth == 0:
                if nibbles.size > 0:
                    _copy_nibbles(nibbles[panel, k0 // 2 : (k0 + size) // 2], strip, width)
                elif wide.size > 0:
                    _copy_rows(wide[panel, k0 : k0 + size], strip, width)
                else:
                    _copy_rows(narrow[panel, k0 : k0 + size], strip, width)
                block_fp32(a[m0 : m0 + rows], k0, strip, sums[:rows], width)
            else:
                for m in range(rows):
                    for k in range(size):
                        short[m, k] = np.int16(a[m0 + m, k0 + k])
                for k in range(0, size, depth):
                    if nibbles.size > 0:
                        _copy_nibbles(nibbles[panel, (k0 + k) // 2 : (k0 + k + depth) // 2], small, width)
                    else:
                        _copy_rows(narrow[panel, k0 + k : k0 + k + depth], small, width)
                    part = parts[k // depth % 2]
                    if fours > 0:
                        _block_int16(short, k, small[:depth], part[:fours], width)
                    for m in range(fours, rows):
                        _row_int16(short[m, k:], small[:depth], 0, part[m], width)
                    for m in range(rows * (1 - np.int64(in_halves))):
                        _take(part[m], sums[m], width)
            for m in range(rows):
                power = powers[m0 + m, g]
                if in_halves:
                    _finish_halves(parts[0, m], parts[1, m], power, scales[panel, g], acc[m], width)
                    clear_all(parts[0, m])
                    clear_all(parts[1, m])
                    continue
                _finish_group(sums[m], power, b_powers[panel, g], scales[panel, g], partial16, product16, acc[m], width)
        for m in range(rows):
            _store_row(acc[m], out[m0 + m], panel * width, width)


@callee
def _copy_rows(values, strip, width):
    """strip[:, :width] <- values, in the strip's type."""
    for k in range(values.shape[0]):
        v, s = values[k], strip[k]
        for n in range(width):
            s[n] = v[n]


@callee
def _copy_nibbles(codes, strip, width):
    """strip[:, :width] <- two rows of values for every row of codes, in the strip's type."""
    for k in range(codes.shape[0]):
        c, even, odd = codes[k], strip[2 * k], strip[2 * k + 1]
        for n in range(width):  # a loop each: one with both stores is not vectorised
            even[n] = np.int16(c[n] & NIBBLE) - ZERO
        for n in range(width):
            odd[n] = np.int16(c[n] >> FOUR) - ZERO


@kernel
def grouped_row(a, powers, nibbles, scales, partial16, product16, out, first, last):
    """Columns `first` to `last` of out (N,) <- `grouped_tiles` of one row a (K,); codes of 4 bits are read as they are.

    Groups are multiples of DEPTH terms, sums of so many fit 16 bits, and b has no powers.
    """
    span, size, none = scales.shape[2], a.size // scales.shape[1], np.empty(0, np.float32)
    short, in_halves = np.empty(a.size, np.int16), size == 2 * DEPTH and partial16 and not product16
    for k in range(a.size):
        short[k] = np.int16(a[k])
    for panel in range(first // span, (last - 1) // span + 1):
        c0, c1 = max(first - panel * span, 0), min(last - panel * span, span)
        width = c1 - c0
        acc, sums, parts = np.zeros(width, np.float32), np.zeros(width, np.float32), np.empty((2, width), np.int16)
        for g in range(scales.shape[1]):
            for k in range(g * size, (g + 1) * size, DEPTH):
                _sum_codes(
                    short[k : k + DEPTH], nibbles[panel, k // 2 : (k + DEPTH) // 2], c0, parts[k // DEPTH % 2], width
                )
                if not in_halves:
                    _take(parts[k // DEPTH % 2], sums, width)
            if in_halves:
                _finish_halves(parts[0], parts[1], powers[g], scales[panel, g, c0:], acc, width)
            else:
                _finish_group(sums, powers[g], none, scales[panel, g, c0:], partial16, product16, acc, width)
        _store_row(acc, out, panel * span + c0, width)


@callee
def _sum_codes(p, codes, c0, out, width):
    """out <- DEPTH products in 16 bits, which wrap: codes are 8 more than values, and what that adds is subtracted."""
    total = np.int16(0)
    for k in range(DEPTH):
        total = np.int16(total + p[k])
    start = np.int16(-np.int16(total << np.int16(3)))
    b0, b1, b2, b3 = codes[0, c0:], codes[1, c0:], codes[2, c0:], codes[3, c0:]
    b4, b5, b6, b7 = codes[4, c0:], codes[5, c0:], codes[6, c0:], codes[7, c0:]
    p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
    q0, q1, q2, q3, q4, q5, q6, q7 = p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15]
    for n in range(width):
        s = _add_pair(p0, p1, b0[n], start)
        s = _add_pair(p4, p5, b2[n], _add_pair(p2, p3, b1[n], s))
        s = _add_pair(q0, q1, b4[n], _add_pair(p6, p7, b3[n], s))
        s = _add_pair(q4, q5, b6[n], _add_pair(q2, q3, b5[n], s))
        out[n] = _add_pair(q6, q7, b7[n], s)


@callee
def _add_pair(even, odd, code, s):
    """s plus both products of a byte."""
    s = np.int16(s + np.int16(even * np.int16(code & NIBBLE)))
    return np.int16(s + np.int16(odd * np.int16(code >> FOUR)))


@callee
def _block_int16(a, k0, b, out, width):
    """Whole fours of rows and terms, whose sums fit 16 bits: an addition is a vector of twice as many lanes."""
    add_block(_add_int16, a, k0, b, out, width)


@callee
def _row_int16(a, b, c0, out, width):
    """One row."""
    add_row(_add_int16, same, a, b, c0, out, width)


@callee
def _add_int16(p, w, s):
    return np.int16(s + p * w)


@kernel
def _take(parts, sums, width):
    """sums += parts, parts <- 0."""
    for n in range(width):
        sums[n] = np.float32(sums[n] + np.float32(parts[n]))
        parts[n] = np.int16(0)


@callee
def _finish_group(sums, power, b_powers, scale, partial16, product16, acc, width):
    """acc += the term of one group, sums <- 0; what float32 is multiplied by here, but the scale, is a power of two."""
    if b_powers.size > 0:
        for n in range(width):
            sums[n] = np.float32(sums[n] * np.float32(power * b_powers[n]))
    else:
        for n in range(width):
            sums[n] = np.float32(sums[n] * power)
    if partial16 and not product16:
        for n in range(width):
            acc[n] = np.float32(acc[n] + np.float32(round16(sums[n]) * scale[n]))
            sums[n] = np.float32(0)
        return
    if partial16:
        for n in range(width):
            sums[n] = round16(sums[n])
    for n in range(width):
        sums[n] = np.float32(sums[n] * scale[n])
    if product16:
        for n in range(width):
            sums[n] = round16(sums[n])
    for n in range(width):
        acc[n] = np.float32(acc[n] + sums[n])
        sums[n] = np.float32(0)


@callee
def _finish_halves(even, odd, power, scale, acc, width):
    """acc += the term of one group whose sum is that of both halves, rounded to fp16 before it is scaled."""
    if LEAST <= power <= MOST:
        for n in range(width):
            total = np.float32(np.int32(even[n]) + np.int32(odd[n]))
            acc[n] = np.float32(acc[n] + np.float32(round16_times(total, power) * scale[n]))
        return
    for n in range(width):
        total = np.float32(np.int32(even[n]) + np.int32(odd[n]))
        acc[n] = np.float32(acc[n] + np.float32(round16(np.float32(total * power)) * scale[n]))


@callee
def _store_row(acc, out, n0, width):
    for n in range(min(width, out.shape[0] - n0)):
        out[n0 + n] = canonical(acc[n])
