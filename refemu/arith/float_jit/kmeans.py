"""Index MatMul: the dense counts and the sparse path. [kllm §III]"""

import numpy as np

from refemu.arith.float_jit.matmul import TILE
from refemu.arith.float_jit.orders import STEP, clear_all, spread, step_term
from refemu.arith.float_jit.scalars import FP16, FP16_FMA, FP32, canonical, fma16, round16, round16_product
from refemu.arith.jit import kernel

EIGHT_BITS = 248  # members that a counter of eight bits takes, a multiple of eight


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
        out[n] = round16(scale[n] * table[index[n]])


@kernel
def kmeans_dense(a_index, a_mask, amounts, index, limits, table, size, acc, bounded, narrow, skip, sums, counts,
                 units, totals):
    """sums (M, N) <- for every row of A and column of B the counts of joint indices times `table`, in sequence.

    a_index, a_mask (M, K): A's index, or with `amounts` (0 or 1) what a position counts; not used where masked.
    index (K, N): of B, below `size`, or 255 where a position is left out. table: entry a * size + b, with `amounts` b.
    limits (M, 2): positions and columns of a row. bounded, narrow: as in `round16_product` and `_count16`. skip: leave
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
            sums[m, n] = canonical(sums[m, n])


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
                s = round16(sums[n] + round16_product(_count16(c0[n], narrow) * p0, bounded))
                s = round16(s + round16_product(_count16(c1[n], narrow) * p1, bounded))
                s = round16(s + round16_product(_count16(c2[n], narrow) * p2, bounded))
                sums[n] = round16(s + round16_product(_count16(c3[n], narrow) * p3, bounded))
    for i in range(whole, wide.shape[0]):
        c0, p0 = wide[i], table[i]
        for n in range(width):
            if acc == FP32:
                sums[n] = sums[n] + np.float32(c0[n]) * p0
            elif acc == FP16:
                sums[n] = round16(sums[n] + round16_product(round16(np.float32(c0[n])) * p0, bounded))
            else:
                sums[n] = fma16(round16(np.float32(c0[n])), p0, sums[n])


@kernel
def _count16(count, narrow):
    """A count as fp16; `narrow` says that it is at most 2048, so that float32 already holds the fp16 value."""
    if narrow:
        return np.float32(count)
    return round16(np.float32(count))
