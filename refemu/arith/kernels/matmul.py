"""Sequential products: blocks out[m, :width] += a[m, k0 + k] * b[k, :width], k ascending."""

import numpy as np

from refemu.arith.jit import callee, inlined, kernel
from refemu.arith.kernels.scalars import canonical, fma16, fma32, round16, round16_product, widen

TILE = 512  # most columns of a tile
DEPTH = 64  # terms of a strip: with TILE, what a second-level cache holds
ROWS = 256  # most rows of a tile: what widening the words of a strip costs is shared by so many
FEW = 64  # rows that tiles may shrink to, so that there are enough of them for all threads
PAD = 16  # columns that rows of a strip are longer, so that they do not share cache sets; the grain of a tile


@callee
def block_fp32(a, k0, b, out, width):
    """out (rows, ...)[:width] += a[:, k0 + k] * b (terms, ...)[k], a product and a sum rounded each."""
    add_block(_add_product, a, k0, b, out, width)
    _add_rest(row_fp32, a, k0, b, out, width)


@callee
def row_fp32(a, b, c0, out, width):
    """`block_fp32` of one row, from column c0 of b on."""
    add_row(_add_product, same, a, b, c0, out, width)


@callee
def _row_half(a, b, c0, out, width):
    """`row_fp32` over words of fp16, widened on the way: half the memory traffic."""
    add_row(_add_product, widen, a, b, c0, out, width)


@kernel
def _block_fma32(a, k0, b, out, width):
    """`block_fp32`, fused."""
    add_block(fma32, a, k0, b, out, width)
    _add_rest(_row_fma32, a, k0, b, out, width)


@callee
def _row_fma32(a, b, c0, out, width):
    """`row_fp32`, fused."""
    add_row(fma32, same, a, b, c0, out, width)


@callee
def _row_half_fma32(a, b, c0, out, width):
    """`_row_half`, fused."""
    add_row(fma32, widen, a, b, c0, out, width)


@callee
def _add_product(p, w, s):
    return np.float32(s + np.float32(p * w))


@callee
def same(w):
    """An element that needs no widening."""
    return w


@inlined
def add_block(step, a, k0, b, out, width):
    """out <- step(a, b, out), four rows by four terms at a time, which registers hold; rows and terms left are left."""
    rows, terms = out.shape[0] - out.shape[0] % 4, b.shape[0] - b.shape[0] % 4
    for m in range(0, rows, 4):
        o0, o1, o2, o3 = out[m], out[m + 1], out[m + 2], out[m + 3]
        for k in range(0, terms, 4):
            b0, b1, b2, b3, p = b[k], b[k + 1], b[k + 2], b[k + 3], a[m:, k0 + k :]
            p00, p01, p02, p03 = p[0, 0], p[0, 1], p[0, 2], p[0, 3]
            p10, p11, p12, p13 = p[1, 0], p[1, 1], p[1, 2], p[1, 3]
            p20, p21, p22, p23 = p[2, 0], p[2, 1], p[2, 2], p[2, 3]
            p30, p31, p32, p33 = p[3, 0], p[3, 1], p[3, 2], p[3, 3]
            for n in range(width):
                w0, w1, w2, w3 = b0[n], b1[n], b2[n], b3[n]
                o0[n] = step(p03, w3, step(p02, w2, step(p01, w1, step(p00, w0, o0[n]))))
                o1[n] = step(p13, w3, step(p12, w2, step(p11, w1, step(p10, w0, o1[n]))))
                o2[n] = step(p23, w3, step(p22, w2, step(p21, w1, step(p20, w0, o2[n]))))
                o3[n] = step(p33, w3, step(p32, w2, step(p31, w1, step(p30, w0, o3[n]))))


@inlined
def _add_rest(row, a, k0, b, out, width):
    """What `add_block` leaves, row by row."""
    rows, terms = out.shape[0] - out.shape[0] % 4, b.shape[0] - b.shape[0] % 4
    for m in range(out.shape[0]):
        k = terms * np.int64(m < rows)
        row(a[m, k0 + k :], b[k:], np.int64(0), out[m], width)


@inlined
def add_row(step, load, a, b, c0, out, width):
    """One row by eight terms at a time, then what is left; `load` makes a factor of an element of b."""
    terms = b.shape[0] - b.shape[0] % 8
    for k in range(0, terms, 8):
        p = a[k:]
        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
        b0, b1, b2, b3 = b[k, c0:], b[k + 1, c0:], b[k + 2, c0:], b[k + 3, c0:]
        b4, b5, b6, b7 = b[k + 4, c0:], b[k + 5, c0:], b[k + 6, c0:], b[k + 7, c0:]
        for n in range(width):
            s = step(p1, load(b1[n]), step(p0, load(b0[n]), out[n]))
            s = step(p3, load(b3[n]), step(p2, load(b2[n]), s))
            s = step(p5, load(b5[n]), step(p4, load(b4[n]), s))
            out[n] = step(p7, load(b7[n]), step(p6, load(b6[n]), s))
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k, c0:]
        for n in range(width):
            out[n] = step(p0, load(b0[n]), out[n])


@callee
def _block_fp16(a, k0, b, out, width, bounded):
    """`block_fp32` rounded to fp16 after each operation: four rows by two terms at a time."""
    rows, terms = out.shape[0] - out.shape[0] % 4, b.shape[0] - b.shape[0] % 2
    for m in range(0, rows, 4):
        o0, o1, o2, o3 = out[m], out[m + 1], out[m + 2], out[m + 3]
        for k in range(0, terms, 2):
            b0, b1, p = b[k], b[k + 1], a[m:, k0 + k :]
            p00, p01, p10, p11 = p[0, 0], p[0, 1], p[1, 0], p[1, 1]
            p20, p21, p30, p31 = p[2, 0], p[2, 1], p[3, 0], p[3, 1]
            for n in range(width):
                w0, w1 = b0[n], b1[n]
                o0[n] = _step16(p01, w1, _step16(p00, w0, o0[n], bounded), bounded)
                o1[n] = _step16(p11, w1, _step16(p10, w0, o1[n], bounded), bounded)
                o2[n] = _step16(p21, w1, _step16(p20, w0, o2[n], bounded), bounded)
                o3[n] = _step16(p31, w1, _step16(p30, w0, o3[n], bounded), bounded)
    for m in range(out.shape[0]):
        k = terms * np.int64(m < rows)
        _row_fp16(a[m, k0 + k :], b[k:], np.int64(0), out[m], width, bounded)


@callee
def _row_fp16(a, b, c0, out, width, bounded):
    """`row_fp32` rounded to fp16 after each operation."""
    _row16(same, a, b, c0, out, width, bounded)


@callee
def _row_half_fp16(a, b, c0, out, width, bounded):
    """`_row_fp16` of words."""
    _row16(widen, a, b, c0, out, width, bounded)


@callee
def _step16(p, w, s, bounded):
    return round16(s + round16_product(p * w, bounded))


@inlined
def _row16(load, a, b, c0, out, width, bounded):
    """`add_row`, four terms at a time."""
    terms = b.shape[0] - b.shape[0] % 4
    for k in range(0, terms, 4):
        p0, p1, p2, p3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k, c0:], b[k + 1, c0:], b[k + 2, c0:], b[k + 3, c0:]
        for n in range(width):
            s = _step16(p1, load(b1[n]), _step16(p0, load(b0[n]), out[n], bounded), bounded)
            out[n] = _step16(p3, load(b3[n]), _step16(p2, load(b2[n]), s, bounded), bounded)
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k, c0:]
        for n in range(width):
            out[n] = _step16(p0, load(b0[n]), out[n], bounded)


@callee
def _block_fma16(a, k0, b, out, width):
    for m in range(out.shape[0]):
        o = out[m]
        for k in range(b.shape[0]):
            p0, b0 = a[m, k0 + k], b[k]
            for n in range(width):
                o[n] = fma16(p0, b0[n], o[n])


@kernel
def matmul_fp32(a, wide, half, rows, tile, out, first, last):
    """Tiles `first` to `last` of out (M, N) <- a (M, K) times panels, acc fp32.

    wide: (P, K, W) float32, or else half: (P, K, W) words. A tile is `rows` rows by `tile` columns of one panel.
    """
    _tiles(block_fp32, (), a, wide, half, rows, tile, out, first, last)


@kernel
def matmul_fma32(a, wide, half, rows, tile, out, first, last):
    """`matmul_fp32`, fused."""
    _tiles(_block_fma32, (), a, wide, half, rows, tile, out, first, last)


@kernel
def matmul_fp16(a, bounded, wide, half, rows, tile, out, first, last):
    """`matmul_fp32` rounded to fp16 after each operation; `bounded` as in `round16_product`."""
    _tiles(_block_fp16, (bounded,), a, wide, half, rows, tile, out, first, last)


@kernel
def matmul_fma16(a, wide, half, rows, tile, out, first, last):
    """`matmul_fp32` rounded once to fp16 after each fused operation."""
    _tiles(_block_fma16, (), a, wide, half, rows, tile, out, first, last)


@inlined
def _tiles(block, options, a, wide, half, rows, tile, out, first, last):
    """Columns of a panel are copied, as float32, to a strip that a second-level cache holds; `block` adds it in."""
    strip = np.empty((DEPTH, tile + PAD), np.float32)
    for unit in range(first, last):
        panel, c0, m0, width = _place(unit, wide, half, rows, tile)
        sums = np.zeros((min(rows, a.shape[0] - m0), tile + PAD), np.float32)
        for k0 in range(0, a.shape[1], DEPTH):
            terms = strip[: min(DEPTH, a.shape[1] - k0)]
            _load(terms, wide, half, panel, k0, c0, width)
            block(a[m0:], k0, terms, sums, width, *options)
        _store(sums, out, m0, panel * max(wide.shape[2], half.shape[2]) + c0, width)


@inlined
def _place(unit, wide, half, rows, tile):
    """(panel, first column in it, first row, columns) of tile `unit`: columns vary first, then panels, then rows."""
    count, span = max(wide.shape[0], half.shape[0]), max(wide.shape[2], half.shape[2])
    across = (span + tile - 1) // tile
    c0 = unit % across * tile
    return unit // across % count, c0, unit // across // count * rows, min(tile, span - c0)


@inlined
def _load(strip, wide, half, panel, k0, c0, width):
    """strip (terms, ...) <- terms from k0 and columns from c0 on of a panel, as float32."""
    for k in range(strip.shape[0]):
        row = strip[k]
        if half.shape[0] > 0:
            words = half[panel, k0 + k, c0 : c0 + width]
            for n in range(width):
                row[n] = widen(words[n])
        else:
            values = wide[panel, k0 + k, c0 : c0 + width]
            for n in range(width):
                row[n] = values[n]


@inlined
def _store(sums, out, m0, n0, width):
    """Rows of `sums` to out[m0:, n0:], without the columns that only fill a panel up."""
    for m in range(sums.shape[0]):
        row, sums_of_row = out[m0 + m, n0:], sums[m]
        for n in range(min(width, row.size)):
            row[n] = canonical(sums_of_row[n])


@kernel
def vector_fp32(a, wide, half, out, first, last):
    """Columns `first` to `last` of out (N,) <- a (K,) times panels as `matmul_fp32`, read from end to end."""
    _vector(row_fp32, _row_half, (), a, wide, half, out, first, last)


@kernel
def vector_fma32(a, wide, half, out, first, last):
    """`vector_fp32`, fused."""
    _vector(_row_fma32, _row_half_fma32, (), a, wide, half, out, first, last)


@kernel
def vector_fp16(a, bounded, wide, half, out, first, last):
    """`vector_fp32` rounded to fp16 after each operation; `bounded` as in `round16_product`."""
    _vector(_row_fp16, _row_half_fp16, (bounded,), a, wide, half, out, first, last)


@inlined
def _vector(row, row_half, options, a, wide, half, out, first, last):
    span = max(wide.shape[2], half.shape[2])
    for panel in range(first // span, (last - 1) // span + 1):
        c0, c1 = max(first - panel * span, 0), min(last - panel * span, span)
        sums = np.zeros(c1 - c0, np.float32)
        if half.shape[0] > 0:
            row_half(a, half[panel], c0, sums, c1 - c0, *options)
        else:
            row(a, wide[panel], c0, sums, c1 - c0, *options)
        results = out[panel * span + c0 :]
        for n in range(min(c1 - c0, results.size)):
            results[n] = canonical(sums[n])
