"""The accumulator of a PE, and sums of groups of block floating point. [harmonia §IV-B]"""

import numpy as np

from refemu.arith.float_jit.matmul import PAD, block_fp32
from refemu.arith.float_jit.orders import clear_all
from refemu.arith.float_jit.scalars import canonical, round16, round16_of_f64
from refemu.arith.jit import kernel

GROUP_ROWS = 32  # rows of a tile of grouped sums
MIN_NORMAL = np.float32(float.fromhex("0x1p-14"))  # of fp16
INFINITY = np.float32(np.inf)


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
            half, now = np.float32(exact), np.int64(0)
            if partial16:
                half = round16_of_f64(exact)
                lost = np.int64(abs(half) < MIN_NORMAL) & np.int64(np.float64(half) != exact)
                now = np.int64(abs(half) == INFINITY) | (lost << 1)
            term = half
            if scaled[d, t]:
                product = np.float64(half) * np.float64(factor[d, t])
                term = np.float32(product)
                if product16:
                    term = round16_of_f64(product)
            term = canonical(term)
            if clear[d, t]:
                s, sticky = np.float32(0), np.int64(0)
            s = np.float32(s + term)
            sticky |= now | (np.int64(s != s) << 2)
            value[d, t], acc[d, t], flags[d, t] = term, canonical(s), sticky


@kernel
def grouped_tiles(a, powers, narrow, wide, b_powers, scales, partial16, product16, depth, out, first, last):
    """Units `first` to `last` of out (M, N) <- `dot.grouped_matmul` in sequence: sums of groups stay below 2**24.

    a (M, K) float32 integers; narrow or wide: the values (P, K, W) of a `GroupPanels`, int8 or float32, the other one
    empty; depth: terms at a time whose sum fits 16 bits, or 0.
    """
    size, width, blocks = a.shape[1] // scales.shape[1], scales.shape[2], -(-out.shape[0] // GROUP_ROWS)
    strip, small = np.empty((size, width + PAD), np.float32), np.empty((16, width + 2 * PAD), np.int16)
    sums = np.zeros((GROUP_ROWS, width + PAD), np.float32)
    parts = np.zeros((GROUP_ROWS, width + 2 * PAD), np.int16)
    acc = np.empty((GROUP_ROWS, width + PAD), np.float32)
    short = np.empty((GROUP_ROWS, size), np.int16)
    for unit in range(first, last):
        panel, m0 = unit // blocks, unit % blocks * GROUP_ROWS
        rows = min(GROUP_ROWS, out.shape[0] - m0)
        for m in range(rows):
            clear_all(acc[m])
        for g in range(scales.shape[1]):
            k0 = g * size
            if depth == 0:
                if wide.size > 0:
                    _widen_integers(wide[panel, k0 : k0 + size], strip, width)
                else:
                    _widen_integers(narrow[panel, k0 : k0 + size], strip, width)
                block_fp32(a[m0 : m0 + rows], k0, strip, sums[:rows], width)
            else:
                for m in range(rows):
                    for k in range(size):
                        short[m, k] = np.int16(a[m0 + m, k0 + k])
                for k in range(0, size, depth):
                    if rows > 1:
                        _narrow_integers(narrow[panel, k0 + k : k0 + k + depth], small, width)
                        _block_int16(short[:rows], k, small[:depth], parts, width)
                    else:
                        _row_int8(short[0], k, narrow[panel, k0 + k : k0 + k + depth], parts[0], width)
                    for m in range(rows):
                        _take(parts[m], sums[m], width)
            for m in range(rows):
                _finish_group(sums[m], powers[m0 + m, g], b_powers[panel, g], scales[panel, g], partial16, product16,
                              acc[m], width)
        for m in range(rows):
            _store_row(acc[m], out[m0 + m], panel * width, width)


@kernel
def _widen_integers(values, strip, width):
    for k in range(values.shape[0]):
        v, s = values[k], strip[k]
        for n in range(width):
            s[n] = np.float32(v[n])


@kernel
def _narrow_integers(values, strip, width):
    for k in range(values.shape[0]):
        v, s = values[k], strip[k]
        for n in range(width):
            s[n] = np.int16(v[n])


@kernel
def _block_int16(a, k0, b, out, width):
    """Four rows by four terms at a time; sums fit 16 bits, so that an addition is a vector of twice as many lanes."""
    rows = a.shape[0] - a.shape[0] % 4
    for m in range(0, rows, 4):
        o0, o1, o2, o3 = out[m], out[m + 1], out[m + 2], out[m + 3]
        for k in range(0, b.shape[0], 4):
            b0, b1, b2, b3, p = b[k], b[k + 1], b[k + 2], b[k + 3], a[m:, k0 + k :]
            p00, p01, p02, p03 = p[0, 0], p[0, 1], p[0, 2], p[0, 3]
            p10, p11, p12, p13 = p[1, 0], p[1, 1], p[1, 2], p[1, 3]
            p20, p21, p22, p23 = p[2, 0], p[2, 1], p[2, 2], p[2, 3]
            p30, p31, p32, p33 = p[3, 0], p[3, 1], p[3, 2], p[3, 3]
            for n in range(width):
                w0, w1, w2, w3 = b0[n], b1[n], b2[n], b3[n]
                o0[n] = np.int16(o0[n] + p00 * w0 + p01 * w1 + p02 * w2 + p03 * w3)
                o1[n] = np.int16(o1[n] + p10 * w0 + p11 * w1 + p12 * w2 + p13 * w3)
                o2[n] = np.int16(o2[n] + p20 * w0 + p21 * w1 + p22 * w2 + p23 * w3)
                o3[n] = np.int16(o3[n] + p30 * w0 + p31 * w1 + p32 * w2 + p33 * w3)
    for m in range(rows, a.shape[0]):
        _row_int8(a[m], k0, b, out[m], width)


@kernel
def _row_int8(a, k0, b, out, width):
    """One row by eight terms at a time, b of 8 or 16 bits."""
    for k in range(0, b.shape[0], 8):
        p = a[k0 + k :]
        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
        b0, b1, b2, b3, b4, b5, b6, b7 = (b[k], b[k + 1], b[k + 2], b[k + 3], b[k + 4], b[k + 5], b[k + 6], b[k + 7])
        for n in range(width):
            s = np.int16(out[n] + p0 * b0[n] + p1 * b1[n] + p2 * b2[n] + p3 * b3[n])
            out[n] = np.int16(s + p4 * b4[n] + p5 * b5[n] + p6 * b6[n] + p7 * b7[n])


@kernel
def _take(parts, sums, width):
    """sums += parts, parts <- 0."""
    for n in range(width):
        sums[n] = np.float32(sums[n] + np.float32(parts[n]))
        parts[n] = np.int16(0)


@kernel
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


@kernel
def _store_row(acc, out, n0, width):
    for n in range(min(width, out.shape[0] - n0)):
        out[n0 + n] = canonical(acc[n])
