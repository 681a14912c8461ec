"""Index MatMul: the dense counts and the sparse path. [kllm §III]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.matmul import TILE
from refemu.arith.kernels.orders import STEP, clear_all, spread, step_term
from refemu.arith.kernels.scalars import FP16, FP32, canonical, fma16, round16, round16_of_f64, round16_sum
from refemu.arith.panels import peak
from refemu.units.kllm.kernels.counts import CHUNK, COUNTERS, EIGHT, count_members, sort_positions

ROWS = 32  # rows of A that use a tile of B while it is in a cache
EXACT = 2048  # counts up to this are fp16 values
SAFE = 32768.0  # below this a sum of 1,024 terms stays finite in fp16, even if every addition is rounded up


def is_bounded(table: np.ndarray, most: int) -> bool:
    """Whether fp16 sums of `most` positions with entries of `table` stay finite."""
    return table.size <= 1024 and peak(table) * most < SAFE


@kernel
def kmeans_sparse(a_mask, a_value, index, scale, centroids, starts, places, values, limits, acc, out):
    """out (M, N) <- sums over ascending k of a_value[m, k] * w[k, n] where a_mask[m, k], or where w is an outlier.

    w[k, n] is round16(scale[n] * centroids[m or 0, index[k, n]]), or for j in starts[k] to starts[k + 1] the outlier
    values[j] at n = places[j], ascending. limits (M, 2): positions and columns that row m sees.
    """
    left, w = np.empty(index.shape[1], np.float32), np.empty(index.shape[1], np.float32)
    for m in range(out.shape[0]):
        table, s, width = centroids[min(m, centroids.shape[0] - 1)], out[m], limits[m, 1]
        clear_all(s)
        for k in range(limits[m, 0]):
            if a_mask[m, k]:
                spread(a_value[m, k : k + 1], np.int64(0), left, width)
                _dequantize(index[k], scale, table, w, width)
                for j in range(starts[k], starts[k + 1]):
                    w[places[j]] = values[j]
                step_term(s, left, w, width, acc, np.int64(STEP))
            else:
                for j in range(starts[k], starts[k + 1]):
                    n = places[j]
                    if n < width:
                        left[0] = a_value[m, k]
                        step_term(s[n : n + 1], left, values[j : j + 1], np.int64(1), acc, np.int64(STEP))
        for n in range(width):
            s[n] = canonical(s[n])


@kernel
def kmeans_sparse64(a_mask, a_value, index, scale, centroids, starts, places, values, limits, out, size):
    """As `kmeans_sparse` in float64, with sums of magnitudes; together they bound the exact sum."""
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


@callee
def _dequantize(index, scale, table, out, width):
    for n in range(width):
        out[n] = round16(scale[n] * table[index[n]])


@kernel
def kmeans_dense(
    a_index,
    a_mask,
    amounts,
    index,
    starts,
    places,
    limits,
    table,
    size,
    acc,
    bounded,
    skip,
    sums,
    counts,
    units,
    totals,
):
    """sums (M, N) <- for every row of A and column of B the counts of joint indices times `table`, in sequence.

    a_index, a_mask (M, K): A's index, or with `amounts` (0 or 1) what a position counts; not used where masked.
    index (K + 1, N): of B, below `size`, and a row of zeros. starts, places: B's outliers as in `kmeans_sparse`, which
    count nowhere. table: entry a * size + b, with `amounts` b. limits (M, 2): positions and columns of a row. bounded:
    counts are at most 2048 and fp16 sums finite. skip: leave out zero counts of an index that A does not have.
    counts: int32 (M, table.size, N), filled. totals: int64 (M, N), exact sums of counts times `units`, the table in
    integers. Of these three, those not wanted have no rows; sums and totals that are wanted hold zeros.
    """
    groups = 8 * amounts + table.size // size * (1 - amounts)
    fewer = min(limits.shape[0], ROWS)
    order = np.empty((fewer, a_index.shape[1] * (1 + 7 * amounts) + EIGHT * groups), np.int32)
    ranges, sizes = np.empty((fewer, groups + 1), np.int64), np.empty(groups, np.int64)
    planes, small = np.empty(8 * TILE, np.uint16), np.empty(COUNTERS * TILE, np.uint8)
    wide, outputs = np.empty((size, TILE), np.int32), (sums, counts, units, totals)
    for m0 in range(0, limits.shape[0], ROWS):
        rows = min(ROWS, limits.shape[0] - m0)
        alone = np.int64(rows == 1)  # else the rows of A share cached data
        for r in range(rows):
            m = m0 + r
            positions = a_index[m, : limits[m, 0]]
            sort_positions(positions, a_mask[m], amounts, index.shape[0] - 1, order[r], ranges[r], sizes)
        for n0 in range(0, index.shape[1], TILE):
            for r in range(rows):
                m = m0 + r
                width = min(TILE, limits[m, 1] - n0)
                if width <= 0:
                    continue
                _clear_rows(wide, width * amounts)
                for g in range(groups):
                    members = order[r, ranges[r, g] : ranges[r, g + 1]]
                    ahead = order[r, ranges[r, g] + EIGHT : ranges[r, groups] * alone]
                    if amounts:
                        weight = np.int32(1 << g)
                        _count_wide(members, ahead, index, starts, places, n0, width, planes, small, wide, weight)
                        continue
                    if members.size == 0 and skip and counts.shape[0] == 0:
                        continue
                    if members.size <= CHUNK:
                        count_members(members, ahead, index, starts, places, n0, width, planes, small)
                        part = small.reshape(COUNTERS, TILE)[:size]
                        _use_counts(part, g * size, n0, m, width, table, acc, bounded, outputs)
                        continue
                    _clear_rows(wide, width)
                    _count_wide(members, ahead, index, starts, places, n0, width, planes, small, wide, np.int32(1))
                    _use_counts(wide, g * size, n0, m, width, table, acc, bounded, outputs)
                if amounts:
                    first = np.int64(0)  # a constant would be another signature
                    _use_counts(wide, first, n0, m, width, table, acc, bounded, outputs)
    for m in range(sums.shape[0]):
        for n in range(sums.shape[1]):
            sums[m, n] = canonical(sums[m, n])


@callee
def _count_wide(members, ahead, index, starts, places, n0, width, planes, small, wide, amount):
    """wide (size, TILE) += amount for every member at its index, in chunks that eight-bit counters hold."""
    for low in range(0, members.size, CHUNK):
        chunk, later = members[low : min(low + CHUNK, members.size)], ahead[min(low, ahead.size) :]
        count_members(chunk, later, index, starts, places, n0, width, planes, small)
        for i in range(wide.shape[0]):
            counts, row = small[i * TILE : i * TILE + width], wide[i]
            for n in range(width):
                row[n] += np.int32(amount * np.int32(counts[n]))


@callee
def _use_counts(part, e0, n0, m, width, table, acc, bounded, outputs):
    """Use the counts of entries e0 to e0 + size and of columns from n0 on, as requested of `kmeans_dense`."""
    size, (sums, counts, units, totals) = part.shape[0], outputs
    if counts.shape[0] > 0:
        _keep_counts(part, counts[m, e0 : e0 + size, n0:], width)
    if sums.shape[0] > 0:
        done = 0
        if acc == FP16 and bounded:
            done = reduce_by_four(part, table[e0 : e0 + size], sums[m, n0:], width)
        reduce_counts(part[done:], table[e0 + done : e0 + size], sums[m, n0:], width, acc)
    if totals.shape[0] > 0:
        _total_counts(part, units[e0 : e0 + size], totals[m, n0:], width)


@callee
def _clear_rows(part, width):
    for i in range(part.shape[0]):
        row = part[i]
        for n in range(width):
            row[n] = 0


@callee
def _keep_counts(wide, counts, width):
    for i in range(wide.shape[0]):
        row, out = wide[i], counts[i]
        for n in range(width):
            out[n] = row[n]


@callee
def _total_counts(wide, units, totals, width):
    for i in range(wide.shape[0]):
        row, unit = wide[i], units[i]
        for n in range(width):
            totals[n] += np.int64(row[n]) * unit


@callee
def reduce_by_four(part, table, sums, width):
    """`reduce_counts` in fp16, four entries at a time, `bounded`; return the number of such entries."""
    whole = part.shape[0] - part.shape[0] % 4
    for i in range(0, whole, 4):
        c0, c1, c2, c3 = part[i], part[i + 1], part[i + 2], part[i + 3]
        p0, p1, p2, p3 = table[i], table[i + 1], table[i + 2], table[i + 3]
        for n in range(width):
            s = round16_sum(sums[n] + round16_sum(np.float32(c0[n]) * p0))
            s = round16_sum(s + round16_sum(np.float32(c1[n]) * p1))
            s = round16_sum(s + round16_sum(np.float32(c2[n]) * p2))
            sums[n] = round16_sum(s + round16_sum(np.float32(c3[n]) * p3))
    return whole


@callee
def reduce_counts(part, table, sums, width, acc):
    """sums (...) += counts (entries, ...) times `table`, entry by entry."""
    for i in range(part.shape[0]):
        c, p = part[i], table[i]
        for n in range(width):
            x = np.float32(c[n])
            if acc == FP32:
                sums[n] = sums[n] + x * p
            elif acc == FP16:
                sums[n] = round16(sums[n] + round16(round16(x) * p))
            else:
                sums[n] = fma16(round16(x), p, sums[n])


@kernel
def kmeans_merge(inside, a_scale, b_scale, outside, shift, bias, to16, joint16, limits, out):
    """out (M, N) <- `merge` of float32 sums, fp16 values: scaled, then with the sparse part, shift and bias.

    a_scale (M,), b_scale (N,), shift (M, N) or (0, 0), bias (N,) or (0,) are float64. to16: the accumulator is fp16,
    not float32. joint16: the product of the scales is rounded. limits: columns of a row, as in `kmeans_dense`; beyond
    them 0.
    """
    shifted, biased = shift.shape[0] > 0, bias.size > 0
    for m in range(out.shape[0]):
        for n in range(limits[m, 1]):
            scale = a_scale[m] * b_scale[n]
            if joint16:
                scale = np.float64(round16_of_f64(scale))
            y = _rounded(np.float64(inside[m, n]) * scale, to16)
            y = _rounded(y + np.float64(outside[m, n]), to16 or not (shifted or biased))
            if shifted:
                y = _rounded(y - shift[m, n], to16 or not biased)
            if biased:
                y = _rounded(y + bias[n], True)
            out[m, n] = canonical(np.float32(y))


@kernel
def _rounded(x, to16):
    """float64 rounded to fp16 or to float32, as float64."""
    if to16:
        return np.float64(round16_of_f64(x))
    return np.float64(np.float32(x))
