"""Index MatMul of one token with weights that have no outliers, in one pass over their packed indices. [kllm §III-B]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.scalars import canonical, round16, round16_of_f64
from refemu.models.schemes.kllm.compiled.panels import HALF, LANES, PANEL, count_panel
from refemu.units.kllm.kernels.counts import CHUNK, COUNTERS, sort_positions
from refemu.units.kllm.kernels.index_matmul import EXACT, reduce_by_four


@kernel
def kmeans_vector(
    index, mask, value, a_scale, codes, places, tables, centroids, scale, bias, bounded, out, first, last
):
    """Panels `first` to `last` of out (N,) <- a token times weights: `kmeans_dense`, `kmeans_sparse`, `kmeans_merge`.

    index, mask, value (K,): the token's indices, 1 at outliers, their values; a_scale: float64. codes (P, K + 1, 64):
    as in `panels`, the last row zeros. places (P, 3): a panel's weight, its first output and their number. tables
    (weights, entries * 16), filled up with 0, centroids (weights, any): float32. scale, bias (N,):
    float64; bias may be empty. bounded: as `is_bounded` says. The accumulator is fp16.
    """
    entries = tables.shape[1] // COUNTERS
    order, starts = np.empty(index.size + 8 * entries, np.int32), np.empty(entries + 1, np.int64)
    sizes, apart = np.empty(entries, np.int64), np.empty(index.size, np.int64)
    sort_positions(index, mask, np.int64(0), index.size, order, starts, sizes)
    outliers = 0
    for k in range(index.size):
        if mask[k]:
            apart[outliers] = k
            outliers += 1
    part, more = np.empty((COUNTERS, PANEL), np.uint16), np.empty((COUNTERS, PANEL), np.uint16)
    inside, outside, weight = np.empty(PANEL, np.float32), np.empty(PANEL, np.float32), np.empty(PANEL, np.float32)
    for p in range(first, last):
        w, n0, columns = places[p, 0], places[p, 1], places[p, 2]
        halves = (columns + HALF - 1) // HALF
        width = halves * HALF
        for n in range(PANEL):
            inside[n], outside[n] = np.float32(0), np.float32(0)
        for g in range(entries):
            if sizes[g] > 0:
                _count(codes, p, halves, order, starts[g], starts[g + 1], sizes[g], part, more)
                table = tables[w, COUNTERS * g :]
                if bounded and sizes[g] <= EXACT:
                    reduce_by_four(part, table, inside, width)
                else:
                    _reduce(part, table, inside, width)
        for j in range(outliers):
            _dequantize(codes[p, apart[j]], scale[n0:], centroids[w], weight, columns)
            _add_products(value[apart[j]], weight, outside, columns)
        _merge(inside, outside, a_scale, scale[n0:], bias[min(n0, bias.size) :], out[n0:], columns)


@callee
def _count(codes, p, halves, order, low, high, size, part, more):
    """part <- counts of the members order[low:high] of a group, in chunks that eight planes hold."""
    for h in range(halves):
        count_panel(codes, p, h, order, low, min(low + CHUNK, high), part)
    for k in range(low + CHUNK, high, CHUNK):
        for h in range(halves):
            count_panel(codes, p, h, order, k, min(k + CHUNK, high), more)
        for i in range(COUNTERS):
            for n in range(PANEL):
                part[i, n] += more[i, n]
    for n in range(PANEL):
        part[0, n] -= np.uint16(high - low - size)  # rows of zeros at the end


@callee
def _reduce(part, table, sums, width):
    """`reduce_by_four` of any counts and sums."""
    for i in range(COUNTERS):
        counts, p = part[i], table[i]
        for n in range(width):
            sums[n] = round16(sums[n] + round16(round16(np.float32(counts[n])) * p))


@callee
def _dequantize(row, scale, table, weight, columns):
    """weight <- round16(scale * centroid) of a row of packed indices."""
    for h in range(0, columns, HALF):
        part = row[h // 2 :]
        for n in range(LANES):
            weight[h + n], weight[h + LANES + n] = table[part[n] & 15], table[part[n] >> 4]
    for n in range(columns):
        weight[n] = round16(np.float32(scale[n]) * weight[n])


@callee
def _add_products(x, weight, sums, columns):
    for n in range(columns):
        sums[n] = round16(sums[n] + round16(x * weight[n]))


@callee
def _merge(inside, outside, a_scale, scale, bias, out, columns):
    """out <- `kmeans_merge` with fp16 roundings throughout."""
    for n in range(columns):
        joint = np.float64(round16_of_f64(a_scale * scale[n]))
        y = round16_of_f64(np.float64(inside[n]) * joint)
        out[n] = round16_of_f64(np.float64(y) + np.float64(outside[n]))
    if bias.size > 0:
        for n in range(columns):
            out[n] = round16_of_f64(np.float64(out[n]) + bias[n])
    for n in range(columns):
        out[n] = canonical(out[n])
