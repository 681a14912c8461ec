"""Every compiled kernel that rounds to fp16, fuses or sums floats; the twins `fp16_jit`, `fp32_jit`, `sums_jit` and
`dot_jit` check and prepare what they are given.

Read the readable forms first. Kernels vectorise over outputs, never over the terms of a sum. Every operation is typed,
so that jitted and interpreted runs agree; unsigned subtractions wrap on purpose. They read names of this file only,
since numba's cache does not notice an edit in another one.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from refemu.arith import fp32
from refemu.arith.jit import ROUND16, jit_is_off, kernel

U = np.uint32
U64 = np.uint64
FP32, FP32_FMA, FP16, FP16_FMA = range(4)  # accumulators
ZERO, START, PRODUCT, STEP, ADD = range(5)  # operations of `orders.lower`
ACCUMULATORS = {"fp32": FP32, "fp32_fma": FP32_FMA, "fp16": FP16, "fp16_fma": FP16_FMA}
TILE = 512  # most columns of a tile
DEPTH = 64  # terms of a strip: with TILE, what a second-level cache holds
ROWS = 64  # rows of a tile
PAD = 16  # columns that rows of a strip are longer, so that they do not share cache sets; the grain of a tile
EIGHT_BITS = 248  # members that a counter of eight bits takes, a multiple of eight
STRIP = 256  # outputs that an order's program works on at once
GROUP_ROWS = 32  # rows of a tile of grouped sums
TWO_112 = np.float32(float.fromhex("0x1p112"))
EXP_TABLE = fp32.exp_table()  # a constant of the compiled code: as an argument it would block vectorisation
EXP_LOW, EXP_HIGH = np.float64(-110), np.float64(90)
EXP_INV, EXP_HI, EXP_LO = np.float64(fp32.INV), np.float64(fp32.HI), np.float64(fp32.LO)
EXP_SHIFT, EXP_SHIFT_BITS = np.float64(fp32.SHIFT), np.int64(0x4338000000000000)
C2, C3, C4, C5 = np.float64(0.5), np.float64(fp32.C3), np.float64(fp32.C4), np.float64(fp32.C5)
ONE, HALF = np.float32(1), np.float32(0.5)

# Scalars ---------------------------------------------------------------------------------------------------------


@kernel
def _round16_portable(x):
    """float32 rounded to fp16, by adding 1.5 * 2**(E + 13), whose ulp is the quantum, and taking it away again."""
    u = np.float32(x).view(np.uint32)
    m = U(u & U(0x7FFFFFFF))
    e = max(U(m & U(0x7F800000)), U(0x38800000))  # exponent field, at least that of 2**-14
    big = U(e + U(0x06C00000)).view(np.float32)
    r = np.float32(np.float32(U(m).view(np.float32) + big) - big).view(np.uint32)
    over = U(U(0) - U(U(m - U(0x477FF000)) <= U(0x38001000)))  # 65520 to infinity; wraps on purpose
    r = U(U(r & U(~over)) | U(U(0x7F800000) & over))
    return U(r | U(u & U(0x80000000))).view(np.float32)


@kernel
def _round16_of_f64(x):
    """float64 rounded once to fp16: `_round16_portable` with 1.5 * 2**(E + 42)."""
    u = np.float64(x).view(np.uint64)
    m = U64(u & U64(0x7FFFFFFFFFFFFFFF))
    e = max(U64(m & U64(0x7FF0000000000000)), U64(0x3F10000000000000))
    big = U64(e + U64(0x02A8000000000000)).view(np.float64)
    r = np.float64(np.float64(U64(m).view(np.float64) + big) - big).view(np.uint64)
    over = U64(U64(0) - U64(U64(m - U64(0x40EFFE0000000000)) <= U64(0x3F00020000000000)))
    r = U64(U64(r & U64(~over)) | U64(U64(0x7FF0000000000000) & over))
    return np.float32(U64(r | U64(u & U64(0x8000000000000000))).view(np.float64))


@kernel
def _widen_portable(u):
    """The float32 value of fp16 word `u`: its fields moved, then scaled by 2**112, which subnormals survive."""
    m = U(U(u) & U(0x7FFF))
    special = U(U(0) - U(m >= U(0x7C00)))
    f = np.float32(U(m << U(13)).view(np.float32) * TWO_112).view(np.uint32)
    return U(U(f | U(special & U(0x7F800000))) | U(U(U(u) & U(0x8000)) << U(16))).view(np.float32)


if jit_is_off():

    def _fma32(a, b, c):
        return np.float32(fp32.fma32(a, b, c))

    def _round16(x):
        return _round16_portable(x)

    def _widen(u):
        return _widen_portable(u)

else:

    @intrinsic
    def _llvm_fma(context, a, b, c):
        """One instruction where the CPU has it, else a correct library call."""

        def build(context, builder, signature, arguments):
            return builder.fma(*arguments)

        return types.float32(types.float32, types.float32, types.float32), build

    @intrinsic
    def _llvm_round16(context, x):
        """To half and back: two conversions of F16C."""

        def build(context, builder, signature, arguments):
            return builder.fpext(builder.fptrunc(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(types.float32), build

    @intrinsic
    def _llvm_widen(context, u):
        """The half of these bits, as float."""

        def build(context, builder, signature, arguments):
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

        return types.float32(types.uint16), build

    @kernel
    def _fma32(a, b, c):
        return _llvm_fma(a, b, c)

    if ROUND16 == "hardware":

        @kernel
        def _round16(x):
            return _llvm_round16(x)

        @kernel
        def _widen(u):
            return _llvm_widen(u)

    else:
        _round16, _widen = _round16_portable, _widen_portable


@kernel
def _fma16(a, b, c):
    """a * b + c rounded once to fp16: an exact product, a float32 sum rounded to odd by its error, one rounding."""
    p = np.float32(a * b)
    s = np.float32(p + c)
    back = np.float32(s - p)
    e = np.float32(np.float32(p - np.float32(s - back)) + np.float32(c - back))
    u = s.view(np.uint32)
    step = U(U(U(e != np.float32(0)) & U(e == e)) & U(U(~u) & U(1)))  # inexact, finite, and even
    inwards = U(U(e.view(np.uint32) ^ u) >> U(31))
    return _round16(U(U(u + step) - U(U(step & inwards) << U(1))).view(np.float32))


@kernel
def _round16_product(x, bounded):
    """float32 rounded to fp16; `bounded` says that |x| < 65520 and that the sign of a zero result does not matter."""
    if bounded:
        e = max(U(np.float32(x).view(np.uint32) & U(0x7F800000)), U(0x38800000))
        big = U(e + U(0x06C00000)).view(np.float32)
        return np.float32(np.float32(np.float32(x) + big) - big)
    return _round16(x)


@kernel
def _canonical(x):
    """float32 with the one NaN."""
    u = np.float32(x).view(np.uint32)
    nan = U(U(0) - U(U(u & U(0x7FFFFFFF)) > U(0x7F800000)))
    return U(U(u & U(~nan)) | U(U(0x7FC00000) & nan)).view(np.float32)


@kernel
def _exp(x):
    """`fp32.exp32` of one value; the power of two is added to the exponent field, since y is normal."""
    d = min(max(np.float64(x), EXP_LOW), EXP_HIGH)
    t = d * EXP_INV + EXP_SHIFT
    kf = t - EXP_SHIFT
    r = (d - kf * EXP_HI) - kf * EXP_LO
    k = np.int64(np.float64(t).view(np.int64) - EXP_SHIFT_BITS)
    s = EXP_TABLE[k & np.int64(63)]
    y = s + s * (r + (r * r) * (C2 + r * (C3 + r * (C4 + r * C5))))
    e = np.float32(np.int64(np.float64(y).view(np.int64) + ((k >> np.int64(6)) << np.int64(52))).view(np.float64))
    nan = U(U(0) - U(U(np.float32(x).view(np.uint32) & U(0x7FFFFFFF)) > U(0x7F800000)))
    return U(U(e.view(np.uint32) & U(~nan)) | U(U(0x7FC00000) & nan)).view(np.float32)


# Elementwise ------------------------------------------------------------------------------------------------------


@kernel
def round16_all(x, out):
    """out <- `fp16.round16` of x (size,) float32."""
    for i in range(x.size):
        out[i] = _canonical(_round16(x[i]))


@kernel
def all_fp16(x):
    """Whether every float32 is an fp16 value; NaN is one."""
    strange = U(0)
    for i in range(x.size):
        strange = U(strange | U(U(_round16(x[i]) != x[i]) & U(x[i] == x[i])))
    return strange == U(0)


@kernel
def round16_of_f64_all(x, out):
    """out <- `fp16.round16_of_f64` of x (size,) float64."""
    for i in range(x.size):
        out[i] = _canonical(_round16_of_f64(x[i]))


@kernel
def widen_all(u, out):
    """out <- the values, float32, of fp16 words u (size,)."""
    for i in range(u.size):
        out[i] = _canonical(_widen(u[i]))


@kernel
def narrow_all(x, out):
    """out <- the words, uint16, of float32 x (size,) rounded to fp16; NaN is 0x7E00.

    A subnormal, added to 1/2 whose ulp is 2**-24, leaves its fraction in the low bits.
    """
    for i in range(x.size):
        u = np.float32(_round16(x[i])).view(np.uint32)
        m = U(u & U(0x7FFFFFFF))
        nan = U(m > U(0x7F800000))
        small = U(U(0) - U(m < U(0x38800000)))
        tiny = U(np.float32(U(m).view(np.float32) + HALF).view(np.uint32) - U(0x3F000000))
        word = U(U(tiny & small) | U(min(U(U(m >> U(13)) - U(0x1C000)), U(0x7C00)) & U(~small)))
        sign = U(U(U(u >> U(16)) & U(0x8000)) * U(U(1) - nan))
        out[i] = np.uint16(U(U(word | sign) + U(nan * U(0x200))))


@kernel
def fma32_all(a, b, c, out):
    """out <- `fp32.fma32` of float32 (size,)."""
    for i in range(a.size):
        out[i] = _canonical(_fma32(a[i], b[i], c[i]))


@kernel
def fma16_all(a, b, c, out):
    """out <- `fp16.fma16` of fp16-valued float32 (size,)."""
    for i in range(a.size):
        out[i] = _canonical(_fma16(a[i], b[i], c[i]))


@kernel
def exp_all(x, out):
    """out <- `fp32.exp32` of x (size,)."""
    for i in range(x.size):
        out[i] = _exp(x[i])


# Blocks of a sequential matmul: out[m, :width] += a[m, k0 + k] * b[k, :width], k ascending ---------------------------


@kernel
def _block_fp32(a, k0, b, out, width):
    """Eight rows by four terms at a time, then the terms and rows that are left; b (terms, ...), out (rows, ...)."""
    rows, terms = out.shape[0] - out.shape[0] % 8, b.shape[0] - b.shape[0] % 4
    for m in range(0, rows, 8):
        o0, o1, o2, o3, o4, o5, o6, o7 = (out[m], out[m + 1], out[m + 2], out[m + 3],
                                          out[m + 4], out[m + 5], out[m + 6], out[m + 7])
        for k in range(0, terms, 4):
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            p = a[m:, k0 + k :]
            p00, p01, p02, p03 = p[0, 0], p[0, 1], p[0, 2], p[0, 3]
            p10, p11, p12, p13 = p[1, 0], p[1, 1], p[1, 2], p[1, 3]
            p20, p21, p22, p23 = p[2, 0], p[2, 1], p[2, 2], p[2, 3]
            p30, p31, p32, p33 = p[3, 0], p[3, 1], p[3, 2], p[3, 3]
            p40, p41, p42, p43 = p[4, 0], p[4, 1], p[4, 2], p[4, 3]
            p50, p51, p52, p53 = p[5, 0], p[5, 1], p[5, 2], p[5, 3]
            p60, p61, p62, p63 = p[6, 0], p[6, 1], p[6, 2], p[6, 3]
            p70, p71, p72, p73 = p[7, 0], p[7, 1], p[7, 2], p[7, 3]
            for n in range(width):  # by terms, not by rows: eight independent chains of additions
                w0, w1, w2, w3 = b0[n], b1[n], b2[n], b3[n]
                s0, s1, s2, s3 = o0[n] + p00 * w0, o1[n] + p10 * w0, o2[n] + p20 * w0, o3[n] + p30 * w0
                s4, s5, s6, s7 = o4[n] + p40 * w0, o5[n] + p50 * w0, o6[n] + p60 * w0, o7[n] + p70 * w0
                s0, s1, s2, s3 = s0 + p01 * w1, s1 + p11 * w1, s2 + p21 * w1, s3 + p31 * w1
                s4, s5, s6, s7 = s4 + p41 * w1, s5 + p51 * w1, s6 + p61 * w1, s7 + p71 * w1
                s0, s1, s2, s3 = s0 + p02 * w2, s1 + p12 * w2, s2 + p22 * w2, s3 + p32 * w2
                s4, s5, s6, s7 = s4 + p42 * w2, s5 + p52 * w2, s6 + p62 * w2, s7 + p72 * w2
                o0[n], o1[n], o2[n], o3[n] = s0 + p03 * w3, s1 + p13 * w3, s2 + p23 * w3, s3 + p33 * w3
                o4[n], o5[n], o6[n], o7[n] = s4 + p43 * w3, s5 + p53 * w3, s6 + p63 * w3, s7 + p73 * w3
    for m in range(rows):
        _row_fp32(a[m, k0 + terms :], b[terms:], np.int64(0), out[m], width)
    for m in range(rows, out.shape[0]):
        _row_fp32(a[m, k0:], b, np.int64(0), out[m], width)


@kernel
def _row_fp32(a, b, c0, out, width):
    """One row by eight terms at a time, from column c0 of b on."""
    terms = b.shape[0] - b.shape[0] % 8
    for k in range(0, terms, 8):
        p = a[k:]
        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
        b0, b1, b2, b3 = b[k, c0:], b[k + 1, c0:], b[k + 2, c0:], b[k + 3, c0:]
        b4, b5, b6, b7 = b[k + 4, c0:], b[k + 5, c0:], b[k + 6, c0:], b[k + 7, c0:]
        for n in range(width):
            out[n] = (out[n] + p0 * b0[n] + p1 * b1[n] + p2 * b2[n] + p3 * b3[n]
                      + p4 * b4[n] + p5 * b5[n] + p6 * b6[n] + p7 * b7[n])
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k, c0:]
        for n in range(width):
            out[n] = out[n] + p0 * b0[n]


@kernel
def _row_half(a, b, c0, out, width):
    """`_row_fp32` over words of fp16, widened on the way: half the memory traffic."""
    terms = b.shape[0] - b.shape[0] % 8
    for k in range(0, terms, 8):
        p = a[k:]
        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
        b0, b1, b2, b3 = b[k, c0:], b[k + 1, c0:], b[k + 2, c0:], b[k + 3, c0:]
        b4, b5, b6, b7 = b[k + 4, c0:], b[k + 5, c0:], b[k + 6, c0:], b[k + 7, c0:]
        for n in range(width):
            s = out[n] + p0 * _widen(b0[n]) + p1 * _widen(b1[n]) + p2 * _widen(b2[n]) + p3 * _widen(b3[n])
            out[n] = s + p4 * _widen(b4[n]) + p5 * _widen(b5[n]) + p6 * _widen(b6[n]) + p7 * _widen(b7[n])
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k, c0:]
        for n in range(width):
            out[n] = out[n] + p0 * _widen(b0[n])


@kernel
def _block_fma32(a, k0, b, out, width):
    terms = b.shape[0] - b.shape[0] % 4
    for m in range(out.shape[0]):
        o = out[m]
        for k in range(0, terms, 4):
            b0, b1, b2, b3, p = b[k], b[k + 1], b[k + 2], b[k + 3], a[m, k0 + k :]
            p0, p1, p2, p3 = p[0], p[1], p[2], p[3]
            for n in range(width):
                o[n] = _fma32(p3, b3[n], _fma32(p2, b2[n], _fma32(p1, b1[n], _fma32(p0, b0[n], o[n]))))
        for k in range(terms, b.shape[0]):
            p0, b0 = a[m, k0 + k], b[k]
            for n in range(width):
                o[n] = _fma32(p0, b0[n], o[n])


@kernel
def _block_fp16(a, k0, b, out, width, bounded):
    """Four rows by two terms at a time."""
    rows, terms = out.shape[0] - out.shape[0] % 4, b.shape[0] - b.shape[0] % 2
    for m in range(0, rows, 4):
        o0, o1, o2, o3 = out[m], out[m + 1], out[m + 2], out[m + 3]
        for k in range(0, terms, 2):
            b0, b1, p = b[k], b[k + 1], a[m:, k0 + k :]
            p00, p01, p10, p11 = p[0, 0], p[0, 1], p[1, 0], p[1, 1]
            p20, p21, p30, p31 = p[2, 0], p[2, 1], p[3, 0], p[3, 1]
            for n in range(width):
                w0, w1 = b0[n], b1[n]
                s0 = _round16(o0[n] + _round16_product(p00 * w0, bounded))
                s1 = _round16(o1[n] + _round16_product(p10 * w0, bounded))
                s2 = _round16(o2[n] + _round16_product(p20 * w0, bounded))
                s3 = _round16(o3[n] + _round16_product(p30 * w0, bounded))
                o0[n] = _round16(s0 + _round16_product(p01 * w1, bounded))
                o1[n] = _round16(s1 + _round16_product(p11 * w1, bounded))
                o2[n] = _round16(s2 + _round16_product(p21 * w1, bounded))
                o3[n] = _round16(s3 + _round16_product(p31 * w1, bounded))
    for m in range(rows):
        _row_fp16(a[m, k0 + terms :], b[terms:], out[m], width, bounded)
    for m in range(rows, out.shape[0]):
        _row_fp16(a[m, k0:], b, out[m], width, bounded)


@kernel
def _row_fp16(a, b, out, width, bounded):
    for k in range(b.shape[0]):
        p0, b0 = a[k], b[k]
        for n in range(width):
            out[n] = _round16(out[n] + _round16_product(p0 * b0[n], bounded))


@kernel
def _block_fma16(a, k0, b, out, width):
    for m in range(out.shape[0]):
        o = out[m]
        for k in range(b.shape[0]):
            p0, b0 = a[m, k0 + k], b[k]
            for n in range(width):
                o[n] = _fma16(p0, b0[n], o[n])


@kernel
def matmul_fp32(a, wide, half, tile, out, first, last):
    """Tiles `first` to `last` of out (M, N) <- a (M, K) times panels, acc fp32.

    wide: (P, K, W) float32, or else half: (P, K, W) words. A tile is ROWS rows by `tile` columns of one panel. Its
    columns of the panel are copied, as float32, to a strip that a second-level cache holds.
    """
    strip = np.empty((DEPTH, tile + PAD), np.float32)
    for unit in range(first, last):
        panel, c0, m0, width = _place(unit, wide, half, tile)
        sums = np.zeros((min(ROWS, a.shape[0] - m0), tile + PAD), np.float32)
        for k0 in range(0, a.shape[1], DEPTH):
            block = _load(strip[: min(DEPTH, a.shape[1] - k0)], wide, half, panel, k0, c0, width)
            _block_fp32(a[m0:], k0, block, sums, width)
        _store(sums, out, m0, panel * max(wide.shape[2], half.shape[2]) + c0, width)


@kernel
def matmul_of(a, wide, half, tile, out, acc, bounded, first, last):
    """`matmul_fp32` for the other accumulators; `bounded` as in `_round16_product`."""
    strip = np.empty((DEPTH, tile + PAD), np.float32)
    for unit in range(first, last):
        panel, c0, m0, width = _place(unit, wide, half, tile)
        sums = np.zeros((min(ROWS, a.shape[0] - m0), tile + PAD), np.float32)
        for k0 in range(0, a.shape[1], DEPTH):
            block = _load(strip[: min(DEPTH, a.shape[1] - k0)], wide, half, panel, k0, c0, width)
            if acc == FP32_FMA:
                _block_fma32(a[m0:], k0, block, sums, width)
            elif acc == FP16:
                _block_fp16(a[m0:], k0, block, sums, width, bounded)
            else:
                _block_fma16(a[m0:], k0, block, sums, width)
        _store(sums, out, m0, panel * max(wide.shape[2], half.shape[2]) + c0, width)


@kernel
def _place(unit, wide, half, tile):
    """(panel, first column in it, first row, columns) of tile `unit`: columns vary first, then panels, then rows."""
    count, span = max(wide.shape[0], half.shape[0]), max(wide.shape[2], half.shape[2])
    across = (span + tile - 1) // tile
    c0 = unit % across * tile
    return unit // across % count, c0, unit // across // count * ROWS, min(tile, span - c0)


@kernel
def _load(strip, wide, half, panel, k0, c0, width):
    """strip (terms, ...) <- terms from k0 and columns from c0 on of a panel, as float32."""
    for k in range(strip.shape[0]):
        row = strip[k]
        if half.shape[0] > 0:
            words = half[panel, k0 + k, c0 : c0 + width]
            for n in range(width):
                row[n] = _widen(words[n])
        else:
            values = wide[panel, k0 + k, c0 : c0 + width]
            for n in range(width):
                row[n] = values[n]
    return strip


@kernel
def _store(sums, out, m0, n0, width):
    """Rows of `sums` to out[m0:, n0:], without the columns that only fill a panel up."""
    for m in range(sums.shape[0]):
        row, sums_of_row = out[m0 + m, n0:], sums[m]
        for n in range(min(width, row.size)):
            row[n] = _canonical(sums_of_row[n])


@kernel
def vector_fp32(a, wide, half, out, first, last):
    """Columns `first` to `last` of out (N,) <- a (K,) times panels as `matmul_fp32`, acc fp32, read from end to end."""
    span = max(wide.shape[2], half.shape[2])
    for panel in range(first // span, (last - 1) // span + 1):
        c0, c1 = max(first - panel * span, 0), min(last - panel * span, span)
        sums = np.zeros(c1 - c0, np.float32)
        if half.shape[0] > 0:
            _row_half(a, half[panel], c0, sums, c1 - c0)
        else:
            _row_fp32(a, wide[panel], c0, sums, c1 - c0)
        row = out[panel * span + c0 :]
        for n in range(min(c1 - c0, row.size)):
            row[n] = _canonical(sums[n])


# Any order ----------------------------------------------------------------------------------------------------------


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
                    _spread(a[m, k], n0, left, width)
                    _step(s, left, b[k, n0 : n0 + width], width, acc, op)
            for n in range(width):
                out[m, n0 + n] = _canonical(slots[0, n])


@kernel
def _add(s, x, width, acc):
    if acc <= FP32_FMA:
        for n in range(width):
            s[n] = s[n] + x[n]
    else:
        for n in range(width):
            s[n] = _round16(s[n] + x[n])


@kernel
def _step(s, a, b, width, acc, op):
    """A product into slot `s`, or one accumulation onto it."""
    if op == PRODUCT and acc <= FP32_FMA:
        for n in range(width):
            s[n] = a[n] * b[n]
    elif op == PRODUCT:
        for n in range(width):
            s[n] = _round16(a[n] * b[n])
    elif acc == FP32:
        for n in range(width):
            s[n] = s[n] + a[n] * b[n]
    elif acc == FP32_FMA:
        for n in range(width):
            s[n] = _fma32(a[n], b[n], s[n])
    elif acc == FP16:
        for n in range(width):
            s[n] = _round16(s[n] + _round16(a[n] * b[n]))
    else:
        for n in range(width):
            s[n] = _fma16(a[n], b[n], s[n])


@kernel
def run_program_of_terms(rows, x, slots):
    """Slot 0 <- the program `rows` over the terms x (K, N) themselves; slots (any, N), float32 or float64 as x is."""
    for i in range(rows.shape[0]):
        op, s, k = rows[i, 0], slots[rows[i, 1]], rows[i, 2]
        if op == ADD:
            _plus(slots[k], s)
        elif op == STEP:
            _plus(x[k], s)
        elif op == PRODUCT:
            _copy(x[k], s)
        else:
            _clear(s)


@kernel
def _plus(x, out):
    for i in range(out.size):
        out[i] = out[i] + x[i]


@kernel
def _copy(x, out):
    for i in range(out.size):
        out[i] = x[i]


@kernel
def _clear(out):
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
def _spread(x, n0, out, width):
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
            _spread(a[m, k], np.int64(0), left, left.size)
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


# Grouped sums, norms, softmax, attention ----------------------------------------------------------------------------


@kernel
def group_terms(a, b, powers, b_powers, scale, partial16, product16, out):
    """out (G, M, N) <- the rounded terms of `dot.grouped_matmul`; a, b hold integers, group sums stay below 2**24."""
    groups, outputs = b_powers.shape
    size = b.shape[0] // groups
    sums = np.empty(outputs, np.float32)
    for m in range(a.shape[0]):
        for g in range(groups):
            _clear(sums)
            _row_fp32(a[m, g * size :], b[g * size : (g + 1) * size], np.int64(0), sums, outputs)
            o = out[g, m]
            for n in range(outputs):  # powers of two: exact in float64
                o[n] = _rounded(np.float64(sums[n]) * (powers[m, g] * b_powers[g, n]), partial16)
            if scale.shape[0] > 0:
                for n in range(outputs):
                    o[n] = _rounded(np.float64(o[n]) * np.float64(scale[g, n]), product16)


@kernel
def _rounded(x, to16):
    """float64 rounded once, to fp16 or to float32."""
    if to16:
        return _round16_of_f64(x)
    return np.float32(x)


@kernel
def rmsnorm_rows(x, gain, eps, out):
    """out <- `fp32.rmsnorm` of the rows of x (R, K), in sequence."""
    terms = np.float32(x.shape[1])
    for r in range(x.shape[0]):
        s = np.float32(0)
        for k in range(x.shape[1]):
            s = s + x[r, k] * x[r, k]
        g = ONE / np.sqrt(s / terms + eps)
        for k in range(x.shape[1]):
            out[r, k] = _canonical((x[r, k] * g) * gain[k])


@kernel
def rotate_pairs(x, c, s, first, second, out):
    """Pairs of the last axis: (first * i, second + first * i), with second 1 for neighbours or D/2."""
    for t in range(x.shape[0]):
        for h in range(x.shape[1]):
            for i in range(c.shape[1]):
                a, b = x[t, h, first * i], x[t, h, first * i + second]
                out[t, h, first * i] = _canonical(a * c[t, i] - b * s[t, i])
                out[t, h, first * i + second] = _canonical(a * s[t, i] + b * c[t, i])


@kernel
def shifted_exp(x, out):
    """out <- exp32(x - max x) of one row; the maximum is taken on integer keys."""
    top = np.int32(-2147483648)
    for i in range(x.size):
        word = np.float32(x[i]).view(np.int32)
        top = max(top, np.int32(word ^ np.int32((word >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    peak = np.int32(top ^ np.int32((top >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    for i in range(x.size):
        out[i] = _exp(x[i] - peak)


@kernel
def softmax_rows(x, out):
    """`fp32.softmax32` of the rows of x (R, K) in sequence."""
    sums = np.zeros(x.shape[0], np.float32)
    for r in range(x.shape[0]):
        shifted_exp(x[r], out[r])
    total_rows(out, x.shape[1], sums)
    for r in range(x.shape[0]):
        for k in range(x.shape[1]):
            out[r, k] = _canonical(out[r, k] / sums[r])


@kernel
def attention_heads(q, k, v, scale, start, out, first, last):
    """`dot.attention` for key heads `first` to `last`, eight rows at a time: row r is query r // heads, head r % heads.

    The keys that all eight see take one block; then each row adds the few that it sees besides.
    """
    heads, depth, seen = q.shape[1] // k.shape[1], q.shape[2], start + q.shape[0]
    keys, values = np.empty((depth, seen + PAD + seen % 32), np.float32), np.empty((seen, depth), np.float32)
    logits, chances = np.empty((8, seen + PAD), np.float32), np.empty((8, seen + PAD), np.float32)
    queries, sums, total = np.zeros((8, depth), np.float32), np.empty((8, depth), np.float32), np.empty(8, np.float32)
    for shared in range(first, last):
        _transpose(k, shared, keys, seen)
        for j in range(seen):
            _copy(v[j, shared], values[j])
        for r0 in range(0, q.shape[0] * heads, 8):
            rows = min(8, q.shape[0] * heads - r0)
            least, most = start + r0 // heads + 1, start + (r0 + rows - 1) // heads + 1  # keys of the first, the last
            for i in range(rows):
                _copy(q[(r0 + i) // heads, shared * heads + (r0 + i) % heads], queries[i])
                _clear(logits[i, :most])
                _clear(chances[i, :most])  # a key that is not seen adds +0, to no effect
                _clear(sums[i])
            _clear(total)
            _block_fp32(queries, np.int64(0), keys, logits[:rows], most)
            for i in range(rows):
                own = start + (r0 + i) // heads + 1
                for j in range(own):
                    logits[i, j] = logits[i, j] * scale
                shifted_exp(logits[i, :own], chances[i, :own])
            total_rows(chances, most, total[:rows])
            for i in range(rows):
                for j in range(most):
                    chances[i, j] = chances[i, j] / total[i]
            _block_fp32(chances, np.int64(0), values[:least], sums[:rows], depth)
            for i in range(rows):
                own, o = start + (r0 + i) // heads + 1, out[(r0 + i) // heads, shared * heads + (r0 + i) % heads]
                _row_fp32(chances[i, least:own], values[least:own], np.int64(0), sums[i], depth)
                for d in range(depth):
                    o[d] = _canonical(_round16(sums[i, d]))


@kernel
def _transpose(k, shared, keys, seen):
    """keys (D, ...) <- head `shared` of k (S, KV, D), sixteen positions at a time."""
    for j0 in range(0, seen, 16):
        for d in range(k.shape[2]):
            row = keys[d]
            for j in range(j0, min(j0 + 16, seen)):
                row[j] = k[j, shared, d]


# The accumulator of a PE, groups of block floating point ----------------------------------------------------------


@kernel
def running_sums(x, clear, out):
    """out (D, T) <- the accumulator after every term of x (D, T), from +0 at the start and where `clear` is not 0."""
    for d in range(x.shape[0]):
        s = np.float32(0)
        for t in range(x.shape[1]):
            if clear[d, t]:
                s = np.float32(0)
            s = np.float32(s + x[d, t])
            out[d, t] = _canonical(s)


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
            _clear(acc[m])
        for g in range(scales.shape[1]):
            k0 = g * size
            if depth == 0:
                if wide.size > 0:
                    _widen_integers(wide[panel, k0 : k0 + size], strip, width)
                else:
                    _widen_integers(narrow[panel, k0 : k0 + size], strip, width)
                _block_fp32(a[m0 : m0 + rows], k0, strip, sums[:rows], width)
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
            acc[n] = np.float32(acc[n] + np.float32(_round16(sums[n]) * scale[n]))
            sums[n] = np.float32(0)
        return
    if partial16:
        for n in range(width):
            sums[n] = _round16(sums[n])
    for n in range(width):
        sums[n] = np.float32(sums[n] * scale[n])
    if product16:
        for n in range(width):
            sums[n] = _round16(sums[n])
    for n in range(width):
        acc[n] = np.float32(acc[n] + sums[n])
        sums[n] = np.float32(0)


@kernel
def _store_row(acc, out, n0, width):
    for n in range(min(width, out.shape[0] - n0)):
        out[n0 + n] = _canonical(acc[n])


# The sparse path of an index MatMul ------------------------------------------------------------


@kernel
def kmeans_sparse(a_mask, a_value, index, scale, centroids, starts, places, values, limits, acc, out):
    """out (M, N) <- sums over ascending k of a_value[m, k] * w[k, n] where a_mask[m, k], or where w is an outlier.

    w[k, n] is round16(scale[n] * centroids[m or 0, index[k, n]]), or for j in starts[k] to starts[k + 1] the outlier
    values[j] at n = places[j], ascending. limits (M, 2): positions and columns that row m sees.
    """
    left, w = np.empty(index.shape[1], np.float32), np.empty(index.shape[1], np.float32)
    for m in range(out.shape[0]):
        table, s, width = centroids[min(m, centroids.shape[0] - 1)], out[m], limits[m, 1]
        _clear(s)
        for k in range(limits[m, 0]):
            if a_mask[m, k]:
                _spread(a_value[m, k : k + 1], np.int64(0), left, width)
                _dequantize(index[k], scale, table, w, width)
                for j in range(starts[k], starts[k + 1]):
                    w[places[j]] = values[j]
                _step(s, left, w, width, acc, np.int64(STEP))
            else:
                for j in range(starts[k], starts[k + 1]):
                    n = places[j]
                    if n < width:
                        left[0] = a_value[m, k]
                        _step(s[n : n + 1], left, values[j : j + 1], np.int64(1), acc, np.int64(STEP))
        for n in range(width):
            s[n] = _canonical(s[n])


@kernel
def kmeans_sparse64(a_mask, a_value, index, scale, centroids, starts, places, values, limits, out, size):
    """As `kmeans_sparse` in float64, and the sums of magnitudes: between them they bound the exact sum."""
    w = np.empty(index.shape[1], np.float32)
    for m in range(out.shape[0]):
        table, width = centroids[min(m, centroids.shape[0] - 1)], limits[m, 1]
        for k in range(limits[m, 0]):
            x = np.float64(a_value[m, k])
            if a_mask[m, k]:
                _dequantize(index[k], scale, table, w, width)
                for j in range(starts[k], starts[k + 1]):
                    w[places[j]] = values[j]
                for n in range(width):
                    out[m, n] += x * np.float64(w[n])
                    size[m, n] += abs(x * np.float64(w[n]))
            else:
                for j in range(starts[k], starts[k + 1]):
                    n = places[j]
                    if n < width:
                        out[m, n] += x * np.float64(values[j])
                        size[m, n] += abs(x * np.float64(values[j]))


@kernel
def _dequantize(index, scale, table, out, width):
    for n in range(width):
        out[n] = _round16(scale[n] * table[index[n]])


# Attention over pages -------------------------------------------------------------------------

# Columns of `layout` (2, 13), by section: what a page of it looks like; bases are words of an image.
P_TOKENS, P_K_BITS, P_V_BITS, P_K_META, P_V_META, P_K_GROUPS, P_V_GROUPS = range(7)
P_K_STEP, P_V_STEP, P_V_VEC, P_SIGN, P_SCORE, P_POSITION = range(7, 13)
# Entries of `settings`: accumulator, reciprocal, quirk lane_max, sums of a logit, accumulators of a warp (0: only one).
S_ACC, S_RECIP, S_LANE_MAX, S_SUMS, S_ROWS = range(5)
# Columns of `tasks`: KV head, pages of both sections that make its chunk (first and last, one too far), first token.
T_UNIT, T_FIRST, T_LAST, T_START = 0, 1, 3, 5
WARPS, LANES, WARP = 8, 256, 32  # of a block


@kernel
def paged_logits(q, images, cells, lengths, layout, packs, scale, settings, tasks, p, tops):
    """p (U, G, tokens) <- logits of q (U, G, F) and the keys of each chunk; tops (chunks, G) <- keys of their maxima.

    images (pages, words); cells (U, L): page ids, high ones from the left, low ones from the right; lengths (U, 2):
    tokens; packs (2, P): words of a page's key packs of token 0.
    """
    depth, most = q.shape[2], max(layout[0, P_TOKENS], layout[1, P_TOKENS])
    keys, sums = np.empty((depth, most + PAD), np.float32), np.empty((depth, most + PAD), np.float32)
    words, meta = np.empty(most, np.int32), np.empty((2, most), np.float32)
    for task in range(tasks.shape[0]):
        u, at, top = tasks[task, T_UNIT], tasks[task, T_START], tops[task]
        for g in range(q.shape[1]):
            top[g] = np.int32(-2147483648)
        for s in range(2):
            for j in range(tasks[task, T_FIRST + s], tasks[task, T_LAST + s]):
                image = images[cells[u, j + s * (cells.shape[1] - 1 - 2 * j)]]
                count = min(layout[s, P_TOKENS], lengths[u, s] - j * layout[s, P_TOKENS])
                _page_keys(image, layout[s], packs[s], count, words, meta, keys)
                for g in range(q.shape[1]):
                    _logits(q[u, g], keys, scale, settings, sums, p[u, g, at : at + count])
                    top[g] = _top(p[u, g, at : at + count], top[g], settings[S_LANE_MAX])
                at += count


@kernel
def paged_softmax(tasks, ends, tops, eps, settings, p, totals):
    """p <- probabilities of the logits of each chunk, whose tokens end before `ends`; totals (chunks, G) <- sums."""
    for task in range(tasks.shape[0]):
        for g in range(p.shape[1]):
            key = tops[task, g]
            top = np.int32(key ^ np.int32((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
            part = p[tasks[task, T_UNIT], g, tasks[task, T_START] : ends[task]]
            totals[task, g] = _chances(part, top, eps, settings)


@kernel
def paged_values(images, cells, lengths, layout, packs, settings, tasks, p, out):
    """out (chunks, G, F) <- sums of values weighted by p, not yet rounded; packs (2, Pv) of values."""
    heads, depth, most = p.shape[1], out.shape[2], max(layout[0, P_TOKENS], layout[1, P_TOKENS])
    values, words = np.empty((most, depth), np.float32), np.empty(depth, np.int32)
    weights, order = np.empty(most, np.float32), np.empty(most, np.int64)
    rows = max(np.int64(1), settings[S_ROWS])
    acc = np.empty((heads, max(np.int64(1), settings[S_ROWS] * WARPS), depth), np.float32)
    for task in range(tasks.shape[0]):
        u, at, bits = tasks[task, T_UNIT], tasks[task, T_START], layout[0, P_V_BITS]
        for g in range(heads):
            for i in range(acc.shape[1]):
                _clear(acc[g, i])
        for s in range(2):
            first, last = tasks[task, T_FIRST + s], tasks[task, T_LAST + s]
            if last > first and bits != layout[s, P_V_BITS]:
                for g in range(heads):
                    for i in range(acc.shape[1]):
                        _reorder(acc[g, i], bits, layout[s, P_V_BITS], values[0])
                bits = layout[s, P_V_BITS]
            for j in range(first, last):
                image = images[cells[u, j + s * (cells.shape[1] - 1 - 2 * j)]]
                count, used = min(layout[s, P_TOKENS], lengths[u, s] - j * layout[s, P_TOKENS]), np.int64(0)
                for row in range(rows):
                    begin = used
                    used = _rows_of(row, rows, layout[s, P_V_VEC], count, used, order)
                    _page_values(image, layout[s], packs[s], order[begin:used], words, values[begin:])
                    for g in range(heads):
                        for k in range(begin, used):
                            weights[k] = p[u, g, at + order[k]]
                        sums = acc[g, row + settings[S_ROWS] * ((j - first) % WARPS)]
                        if settings[S_ACC] == FP32_FMA:
                            _row_fma32(weights[begin:used], values[begin:used], sums, depth)
                        else:
                            _row_fp32(weights[begin:used], values[begin:used], np.int64(0), sums, depth)
                at += count
        for g in range(heads):
            half = acc.shape[1] // 2
            while half > 0:
                for i in range(half):
                    _plus(acc[g, i + half], acc[g, i])
                half = half // 2
            _reorder(acc[g, 0], bits, np.int64(16), values[0])
            _copy(acc[g, 0], out[task, g])


@kernel
def _rows_of(row, rows, v_vec, count, used, order):
    """order[used:] <- the slots below `count` that accumulator `row` of a warp adds; returns the new `used`."""
    if rows == 1:
        for t in range(count):
            order[used + t] = t
        return used + count
    for block in range(row * v_vec, count, rows * v_vec):
        for t in range(block, min(block + v_vec, count)):
            order[used] = t
            used += 1
    return used


@kernel
def _page_keys(image, layout, packs, count, words, meta, keys):
    """keys[f, t] <- feature f of the key in slot t, t below `count`."""
    bits = layout[P_K_BITS]
    per = 16 // bits
    if bits == 16:
        for f in range(keys.shape[0]):
            for t in range(count):
                keys[f, t] = _widen(image[packs[f] + t * layout[P_K_STEP]])
        return
    groups = layout[P_K_GROUPS]
    size = keys.shape[0] // per // groups
    for group in range(groups):
        scale, offset = meta[0], meta[1]
        for t in range(count):
            at = layout[P_K_META] + 2 * (t * groups + group)
            scale[t] = _widen(image[at])
            offset[t] = np.float32(np.float32(layout[P_SIGN]) * _widen(image[at + 1]))
        for i in range(group * size, (group + 1) * size):
            for t in range(count):
                words[t] = np.int32(image[packs[i] + t * layout[P_K_STEP]])
            for e in range(per):
                row, shift, mask = keys[i * per + e], np.int32(e * bits), np.int32((1 << bits) - 1)
                for t in range(count):
                    code = np.float32(np.int32((words[t] >> shift) & mask))
                    row[t] = np.float32(np.float32(scale[t] * code) + offset[t])


@kernel
def _page_values(image, layout, packs, slots, words, values):
    """values[k] <- the value in slots[k], feature pack * per + e at e * packs + pack: so packs vectorise."""
    bits = layout[P_V_BITS]
    per, groups = 16 // bits, layout[P_V_GROUPS]
    count = values.shape[1] // per
    for k in range(slots.size):
        t, row = slots[k], values[k]
        place = t // layout[P_V_VEC] * layout[P_V_STEP] + t % layout[P_V_VEC]
        if bits == 16:
            for i in range(count):
                row[i] = _widen(image[packs[i] + place])
            continue
        for i in range(count):
            words[i] = np.int32(image[packs[i] + place])
        for group in range(groups):
            at = layout[P_V_META] + 2 * (t * groups + group)
            scale, offset = _widen(image[at]), np.float32(np.float32(layout[P_SIGN]) * _widen(image[at + 1]))
            begin, size = group * (count // groups), count // groups
            source = words[begin : begin + size]
            for e in range(per):
                shift, mask = np.int32(e * bits), np.int32((1 << bits) - 1)
                part = row[e * count + begin : e * count + begin + size]
                for i in range(size):
                    code = np.float32(np.int32((source[i] >> shift) & mask))
                    part[i] = np.float32(np.float32(scale * code) + offset)


@kernel
def _reorder(x, before, after, work):
    """x from the order of features of codes of `before` bits to that of `after` bits, see `_page_values`."""
    if before == after:
        return
    for f in range(x.size):
        per = 16 // before
        work[f] = x[f % per * (x.size // per) + f // per]
    for f in range(x.size):
        per = 16 // after
        x[f % per * (x.size // per) + f // per] = work[f]


@kernel
def _row_fma32(a, b, out, width):
    """out[:width] += a[k] * b[k, :width], fused, k ascending."""
    terms = b.shape[0] - b.shape[0] % 4
    for k in range(0, terms, 4):
        p = a[k:]
        p0, p1, p2, p3, b0, b1, b2, b3 = p[0], p[1], p[2], p[3], b[k], b[k + 1], b[k + 2], b[k + 3]
        for n in range(width):
            out[n] = _fma32(p3, b3[n], _fma32(p2, b2[n], _fma32(p1, b1[n], _fma32(p0, b0[n], out[n]))))
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k]
        for n in range(width):
            out[n] = _fma32(p0, b0[n], out[n])


@kernel
def _logits(q, keys, scale, settings, sums, out):
    """out (tokens,) <- scaled products of one query with the first keys of a page; a tree over `S_SUMS` sums."""
    count, left = settings[S_SUMS], out.size
    size = q.size // count
    for g in range(count):
        _clear(sums[g, :left])
        part, rows = q[g * size : (g + 1) * size], keys[g * size : (g + 1) * size]
        if settings[S_ACC] == FP32_FMA:
            _row_fma32(part, rows, sums[g], left)
        else:
            _row_fp32(part, rows, np.int64(0), sums[g], left)
    while count > 1:
        for g in range(count // 2):
            first, second, into = sums[2 * g], sums[2 * g + 1], sums[g]
            for t in range(left):
                into[t] = first[t] + second[t]
        if count % 2 == 1:
            _copy(sums[count - 1, :left], sums[count // 2, :left])
        count = (count + 1) // 2
    for t in range(left):
        out[t] = _canonical(sums[0, t] * scale)


@kernel
def _top(x, top, lane_max):
    """The largest of `top` and the keys of x; with `lane_max` of every fourth slot only."""
    for t in range(0, x.size, 1 + 3 * lane_max):
        word = np.float32(x[t]).view(np.int32)
        top = max(top, np.int32(word ^ np.int32((word >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    return top


@kernel
def _chances(x, top, eps, settings):
    """x <- exp(x - top) divided by their sum; returns the sum."""
    for t in range(x.size):
        x[t] = _exp(x[t] - top)
    total = np.float32(0)
    if settings[S_ROWS] == 0:
        for t in range(x.size):
            total = np.float32(total + x[t])
    else:
        lanes = np.zeros(LANES, np.float32)
        for t0 in range(0, x.size, LANES):
            part = x[t0 : t0 + LANES]
            _plus(part, lanes[: part.size])
        total = _tree_of_lanes(lanes)
    bottom = np.float32(total + eps)
    if settings[S_RECIP]:
        inverse = np.float32(ONE / bottom)
        for t in range(x.size):
            x[t] = _canonical(x[t] * inverse)
    else:
        for t in range(x.size):
            x[t] = _canonical(x[t] / bottom)
    return total


@kernel
def _tree_of_lanes(lanes):
    """The sum of 256 lanes: halves within each 32, then halves of the 8 results."""
    half = WARP // 2
    while half > 0:
        for w in range(0, LANES, WARP):
            for i in range(w, w + half):
                lanes[i] = lanes[i] + lanes[i + half]
        half = half // 2
    half = WARPS // 2
    while half > 0:
        for w in range(half):
            lanes[w * WARP] = lanes[w * WARP] + lanes[(w + half) * WARP]
        half = half // 2
    return lanes[0]


@kernel
def paged_scores(images, cells, lengths, layout, newest, p):
    """Scores of stored tokens in `images` += the largest p over heads; those at position newest[u] stay (-1: none)."""
    for u in range(p.shape[0]):
        at = np.int64(0)
        for s in range(2):
            tokens = layout[s, P_TOKENS]
            for index in range(lengths[u, s]):
                page = cells[u, index // tokens]
                if s == 1:
                    page = cells[u, cells.shape[1] - 1 - index // tokens]
                image, word = images[page], layout[s, P_SCORE] + 2 * (index % tokens)
                where = layout[s, P_POSITION] + 2 * (index % tokens)
                position = np.int64(image[where]) | (np.int64(image[where + 1]) << 16)
                if position != newest[u]:
                    best = np.float32(0)
                    for g in range(p.shape[1]):
                        if p[u, g, at + index] > best or p[u, g, at + index] != p[u, g, at + index]:
                            best = p[u, g, at + index]
                    old = U(U(image[word]) | U(U(image[word + 1]) << U(16))).view(np.float32)
                    bits = np.float32(_canonical(np.float32(old + best))).view(np.uint32)
                    image[word], image[word + 1] = np.uint16(bits & U(0xFFFF)), np.uint16(bits >> U(16))
            at += lengths[u, s]


@kernel
def kmeans_dense(a_index, a_mask, amounts, index, limits, table, size, acc, bounded, narrow, skip, sums, counts,
                 units, totals):
    """sums (M, N) <- for every row of A and column of B the counts of joint indices times `table`, in sequence.

    a_index, a_mask (M, K): A's index, or with `amounts` (0 or 1) what a position counts; not used where masked.
    index (K, N): of B, below `size`, or 255 where a position is left out. table: entry a * size + b, with `amounts` b.
    limits (M, 2): positions and columns of a row. bounded, narrow: as in `_round16_product` and `_count16`. skip: leave
    out zero counts of an index that A does not have. counts: int32 (M, table.size, N), filled. totals: int64 (M, N),
    exact sums of counts times `units`, the table in integers. Of these three, what is not wanted has no rows; sums and
    totals that are wanted hold zeros.
    """
    groups = 256 * amounts + table.size // size * (1 - amounts)
    order, starts = np.empty(a_index.shape[1], np.int64), np.empty(groups + 1, np.int64)
    small, wide = np.empty((size, TILE), np.uint8), np.empty((size, TILE), np.int32)
    for n0 in range(0, index.shape[1], TILE):
        for m in range(limits.shape[0]):
            width = min(TILE, limits[m, 1] - n0)
            if width <= 0:
                continue
            block = index[:, n0 : n0 + width]
            _sort_positions(a_index[m, : limits[m, 0]], a_mask[m], order, starts)
            _clear_rows(wide, width)
            for g in range(amounts, groups):
                members = order[starts[g] : starts[g + 1]]
                last = amounts == 0 or g == groups - 1  # the counts are due: of a group, or of all amounts
                if members.size == 0 and (not last or (amounts == 0 and skip and counts.shape[0] == 0)):
                    continue
                whole = amounts > 0 or members.size > EIGHT_BITS  # counters of eight bits do not do
                _clear_rows(small, width)
                if whole:
                    _count_members(members, block, np.int32(g * amounts + 1 - amounts), small, wide)
                else:
                    _count_rows(members, block, small)
                if not last:
                    continue
                e0 = g * size * (1 - amounts)
                if whole:
                    _use_counts(wide, e0, n0, m, width, table, acc, bounded, narrow, sums, counts, units, totals)
                    _clear_rows(wide, width)
                else:
                    _use_counts(small, e0, n0, m, width, table, acc, bounded, narrow, sums, counts, units, totals)
    for m in range(sums.shape[0]):
        for n in range(sums.shape[1]):
            sums[m, n] = _canonical(sums[m, n])


@kernel
def _use_counts(part, e0, n0, m, width, table, acc, bounded, narrow, sums, counts, units, totals):
    """What `kmeans_dense` is wanted to do with the counts of entries e0 to e0 + size and of columns from n0 on."""
    size = part.shape[0]
    if counts.shape[0] > 0:
        _keep_counts(part, counts[m, e0 : e0 + size, n0:], width)
    if sums.shape[0] > 0:
        _reduce_counts(part, table[e0 : e0 + size], sums[m, n0:], width, acc, bounded, narrow)
    if totals.shape[0] > 0:
        _total_counts(part, units[e0 : e0 + size], totals[m, n0:], width)


@kernel
def _clear_rows(part, width):
    for i in range(part.shape[0]):
        row = part[i]
        for n in range(width):
            row[n] = 0


@kernel
def _sort_positions(index, mask, order, starts):
    """order <- positions that are not masked, by index, ascending; those of index g from starts[g] to starts[g + 1]."""
    starts[:] = 0
    for k in range(index.size):
        starts[np.int64(index[k]) + 1] += 1 - np.int64(mask[k])
    for g in range(starts.size - 1):
        starts[g + 1] += starts[g]
    for k in range(index.size):
        if mask[k] == 0:
            g = np.int64(index[k])
            order[starts[g]] = k
            starts[g] += 1
    for g in range(starts.size - 1, 0, -1):  # every start has moved to the next one
        starts[g] = starts[g - 1]
    starts[0] = 0


@kernel
def _count_members(members, index, amount, small, wide):
    """wide (size, ...) += amount for every member k at index[k, n], in counters of eight bits as long as they hold."""
    for low in range(0, members.size, EIGHT_BITS):
        _clear_rows(small, index.shape[1])
        _count_rows(members[low : min(low + EIGHT_BITS, members.size)], index, small)
        for i in range(wide.shape[0]):
            counts, row = small[i], wide[i]
            for n in range(index.shape[1]):
                row[n] += np.int32(amount * np.int32(counts[n]))


@kernel
def _count_rows(members, index, small):
    """small (size, ...) += 1 for every member k at index[k, n], eight members at a time, then two, then one."""
    width, whole = index.shape[1], members.size - members.size % 8
    for k in range(0, whole, 8):
        r0, r1, r2, r3 = index[members[k]], index[members[k + 1]], index[members[k + 2]], index[members[k + 3]]
        r4, r5, r6, r7 = index[members[k + 4]], index[members[k + 5]], index[members[k + 6]], index[members[k + 7]]
        for i in range(small.shape[0]):
            c, u = small[i], np.uint8(i)
            for n in range(width):
                s = np.uint8(np.uint8(r0[n] == u) + np.uint8(r1[n] == u))
                t = np.uint8(np.uint8(r2[n] == u) + np.uint8(r3[n] == u))
                v = np.uint8(np.uint8(r4[n] == u) + np.uint8(r5[n] == u))
                w = np.uint8(np.uint8(r6[n] == u) + np.uint8(r7[n] == u))
                c[n] = np.uint8(c[n] + np.uint8(np.uint8(s + t) + np.uint8(v + w)))
    rest = members.size - members.size % 2
    for k in range(whole, rest, 2):
        r0, r1 = index[members[k]], index[members[k + 1]]
        for i in range(small.shape[0]):
            c, u = small[i], np.uint8(i)
            for n in range(width):
                c[n] = np.uint8(c[n] + np.uint8(np.uint8(r0[n] == u) + np.uint8(r1[n] == u)))
    for k in range(rest, members.size):
        r0 = index[members[k]]
        for i in range(small.shape[0]):
            c, u = small[i], np.uint8(i)
            for n in range(width):
                c[n] = np.uint8(c[n] + np.uint8(r0[n] == u))


@kernel
def _keep_counts(wide, counts, width):
    for i in range(wide.shape[0]):
        row, out = wide[i], counts[i]
        for n in range(width):
            out[n] = row[n]


@kernel
def _total_counts(wide, units, totals, width):
    for i in range(wide.shape[0]):
        row, unit = wide[i], units[i]
        for n in range(width):
            totals[n] += np.int64(row[n]) * unit


@kernel
def _reduce_counts(wide, table, sums, width, acc, bounded, narrow):
    """sums (...) <- onto them, entry by entry, the counts (entries, ...) times `table`; four at a time."""
    whole = wide.shape[0] - wide.shape[0] % 4
    if acc == FP16_FMA:
        whole = 0
    for i in range(0, whole, 4):
        c0, c1, c2, c3 = wide[i], wide[i + 1], wide[i + 2], wide[i + 3]
        p0, p1, p2, p3 = table[i], table[i + 1], table[i + 2], table[i + 3]
        if acc == FP32:
            for n in range(width):
                s = (sums[n] + np.float32(c0[n]) * p0) + np.float32(c1[n]) * p1
                sums[n] = (s + np.float32(c2[n]) * p2) + np.float32(c3[n]) * p3
        else:
            for n in range(width):
                s = _round16(sums[n] + _round16_product(_count16(c0[n], narrow) * p0, bounded))
                s = _round16(s + _round16_product(_count16(c1[n], narrow) * p1, bounded))
                s = _round16(s + _round16_product(_count16(c2[n], narrow) * p2, bounded))
                sums[n] = _round16(s + _round16_product(_count16(c3[n], narrow) * p3, bounded))
    for i in range(whole, wide.shape[0]):
        c0, p0 = wide[i], table[i]
        for n in range(width):
            if acc == FP32:
                sums[n] = sums[n] + np.float32(c0[n]) * p0
            elif acc == FP16:
                sums[n] = _round16(sums[n] + _round16_product(_round16(np.float32(c0[n])) * p0, bounded))
            else:
                sums[n] = _fma16(_round16(np.float32(c0[n])), p0, sums[n])


@kernel
def _count16(count, narrow):
    """A count as fp16; `narrow` says that it is at most 2048, so that float32 already holds the fp16 value."""
    if narrow:
        return np.float32(count)
    return _round16(np.float32(count))


# Attention over block floating point codes ----------------------------------------------


@kernel
def bfp_heads(q, q_powers, k, v, powers, group, width, settings, scale, start, out, first, last):
    """Key heads `first` to `last` of attention, eight rows at a time as in `attention_heads`; 1 if a score is not
    finite, else 0.

    q (T, H, D) float32 integers, q_powers (T, H, G). k, v: signs, mantissas (S, KV, D), exponents, groups along D and
    along S. powers: what a mantissa of 1 is worth by exponent. width: mantissa bits of the scores. settings: whether
    partial sums, and scores, are rounded to fp16. Query t sees keys 0 to start + t.
    """
    k_sign, k_mantissa, k_exponent = k
    v_sign, v_mantissa, v_exponent = v
    heads, depth, seen = q.shape[1] // k_sign.shape[1], q.shape[2], start + q.shape[0]
    groups, blocks, status = q_powers.shape[2], (seen + group - 1) // group, 0
    keys, values = np.empty((depth, seen + PAD + seen % 32), np.float32), np.empty((seen, depth), np.float32)
    key_powers, unit = np.empty((groups, seen + PAD), np.float32), np.empty((8, blocks), np.float32)
    value_powers = np.empty((blocks, depth), np.float32)
    queries, total = np.zeros((8, depth), np.float32), np.empty(8, np.float32)
    part, logits = np.zeros((8, seen + PAD), np.float32), np.empty((8, seen + PAD), np.float32)
    chances, sums = np.empty((8, seen + PAD), np.float32), np.zeros((8, depth), np.float32)
    mixed = np.empty((8, depth), np.float32)
    for shared in range(first, last):
        _codes_down(k_sign, k_mantissa, shared, keys, seen)
        _codes_along(v_sign, v_mantissa, shared, values, seen)
        for j in range(seen):
            for g in range(groups):
                key_powers[g, j] = powers[k_exponent[j, shared, g]]
        for b in range(blocks):
            for d in range(depth):
                value_powers[b, d] = powers[v_exponent[b, shared, d]]
        for r0 in range(0, q.shape[0] * heads, 8):
            rows = min(8, q.shape[0] * heads - r0)
            most = start + (r0 + rows - 1) // heads + 1
            for i in range(rows):
                _copy(q[(r0 + i) // heads, shared * heads + (r0 + i) % heads], queries[i])
                _clear(logits[i, :most])
                _clear(chances[i, :most])  # a key that is not seen scores +0
                _clear(mixed[i])
            _clear(total)
            for g in range(groups):
                k0 = g * group
                _block_fp32(queries, np.int64(k0), keys[k0 : min(k0 + group, depth)], part[:rows], most)
                for i in range(rows):
                    power = q_powers[(r0 + i) // heads, shared * heads + (r0 + i) % heads, g]
                    _add_group(part[i], power, key_powers[g], settings, logits[i], most)
            for i in range(rows):
                own = start + (r0 + i) // heads + 1
                _scaled_logits(logits[i], scale, settings, own)
                shifted_exp(logits[i, :own], chances[i, :own])
            total_rows(chances, most, total[:rows])
            for i in range(rows):
                status |= _scores_to_bfp(chances[i], total[i], group, width, unit[i], most)
            for b in range((most + group - 1) // group):
                k0 = b * group
                _block_fp32(chances, np.int64(k0), values[k0 : min(k0 + group, most)], sums[:rows], depth)
                for i in range(rows):
                    _add_group(sums[i], unit[i, b], value_powers[b], settings, mixed[i], depth)
            for i in range(rows):
                o = out[(r0 + i) // heads, shared * heads + (r0 + i) % heads]
                for d in range(depth):
                    o[d] = _canonical(_round16(mixed[i, d]))
    return status


@kernel
def _codes_down(sign, mantissa, shared, keys, seen):
    """keys (D, ...) <- head `shared` of codes (S, KV, D) as signed integers, sixteen positions at a time."""
    for j0 in range(0, seen, 16):
        for d in range(sign.shape[2]):
            row = keys[d]
            for j in range(j0, min(j0 + 16, seen)):
                row[j] = np.float32(np.int32(mantissa[j, shared, d]) * np.int32(1 - 2 * np.int32(sign[j, shared, d])))


@kernel
def _codes_along(sign, mantissa, shared, values, seen):
    """values (S, D) <- head `shared` of codes (S, KV, D) as signed integers."""
    for j in range(seen):
        s, m, row = sign[j, shared], mantissa[j, shared], values[j]
        for d in range(s.size):
            row[d] = np.float32(np.int32(m[d]) * np.int32(1 - 2 * np.int32(s[d])))


@kernel
def _add_group(part, power, powers, settings, out, width):
    """out += the exact sums of one group times their powers of two, rounded to fp16 if settings[0]; part <- 0."""
    if settings[0]:
        for n in range(width):
            out[n] = np.float32(out[n] + _round16(np.float32(part[n] * np.float32(power * powers[n]))))
            part[n] = np.float32(0)
        return
    for n in range(width):
        out[n] = np.float32(out[n] + np.float32(part[n] * np.float32(power * powers[n])))
        part[n] = np.float32(0)


@kernel
def _scaled_logits(logits, scale, settings, width):
    """Scores rounded to fp16 if settings[1], then scaled."""
    if settings[1]:
        for n in range(width):
            logits[n] = np.float32(_round16(logits[n]) * scale)
        return
    for n in range(width):
        logits[n] = np.float32(logits[n] * scale)


@kernel
def _scores_to_bfp(chances, total, group, width, unit, seen):
    """Exponentials / total, rounded to fp16, as mantissas of `width` bits in groups whose unit goes to `unit`.

    The word of the largest gives the exponent; below fp16's smallest normal number exponents end. 1 if it is no number.
    """
    for b in range((seen + group - 1) // group):
        row = chances[b * group : min((b + 1) * group, seen)]
        top = np.int32(0)
        for n in range(row.size):
            row[n] = _canonical(_round16(_canonical(row[n] / total)))
            top = max(top, np.float32(row[n]).view(np.int32))
        exponent = max(np.int32(np.int32(top >> np.int32(23)) - np.int32(127)), np.int32(-14))
        if top >= np.int32(0x7F800000):
            return 1
        inverse = np.int32(np.int32(np.int32(126 + width) - exponent) << np.int32(23)).view(np.float32)
        for n in range(row.size):
            row[n] = np.float32(np.int32(np.float32(row[n] * inverse)))
        unit[b] = np.int32(np.int32(exponent + np.int32(128 - width)) << np.int32(23)).view(np.float32)
    return 0
