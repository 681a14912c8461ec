"""Attention over pages. [leankv §5]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.matmul import PAD, row_fp32
from refemu.arith.kernels.orders import clear_all, copy_all, plus
from refemu.arith.kernels.scalars import FP32_FMA, ONE, canonical, exp, fma32
from refemu.units.leankv.kernels.pages import P_TOKENS, P_V_BITS, page_keys, page_values

# Entries of `settings`: accumulator, reciprocal, quirk lane_max, sums of a logit, accumulators of a warp (0: only one),
# warps, threads of the sum of exponentials, neighbouring slots of an accumulator, whether accumulators add up in turn,
# tokens of a chunk (0: all), whether p of token t is weighted as of chunk t // tokens.
S_ACC, S_RECIP, S_LANE_MAX, S_SUMS, S_ROWS, S_WARPS, S_THREADS, S_SLOTS, S_IN_TURN, S_CHUNK, S_BY_NUMBER = range(11)
# Entries of `numbers`: factor of the logits, epsilon of a sum of exponentials, and the decimal that it is written as.
N_SCALE, N_EPSILON, N_DECIMAL = range(3)
# Columns of `tasks`: KV head, pages of both sections that make its chunk (first and last, one too far), its tokens.
T_UNIT, T_FIRST, T_LAST, T_START, T_END = 0, 1, 3, 5, 6
WARP = 32  # threads
LEAST = np.int32(-2147483648)


@kernel
def paged_heads(q, memory, tables, numbers, settings, tasks, results, first, last):
    """Run chunks `first` to `last` of the attention of queries q (U, G, F) over pages.

    memory: images, cells, lengths. tables: layout, key_packs, value_packs. results: p, tops, totals, out, logits, accs.
    p (U, G, tokens) <- probabilities within each chunk; tops (chunks, G) <- keys of the maxima; totals (chunks, G) <-
    sums of exponentials; out (chunks, G, F) <- sums of values, not yet rounded. Images are (pages, words); cells of
    heads, (U, L), page ids, high ones from the left, low ones from the right; lengths, (U, 2), tokens; packs, (2, P),
    words of a page's packs of token 0. Unless they are empty, logits, (U, G, tokens), <- those of the chunks, and accs,
    (chunks, G, accumulators, F), <- accumulators.
    """
    layout, key_packs, value_packs = tables
    p, tops, totals, out, logits, accs = results
    depth, most = q.shape[2], max(layout[0, P_TOKENS], layout[1, P_TOKENS]) + PAD
    keys, sums = np.empty((depth, most), np.float32), np.empty((settings[S_SUMS], most), np.float32)
    values, weights = np.empty((most, depth), np.float32), np.empty(most, np.float32)
    words, meta = np.empty(max(most, depth), np.uint32), np.empty((2, most), np.float32)
    acc = np.empty((q.shape[1], max(np.int64(1), settings[S_ROWS] * settings[S_WARPS]), depth), np.float32)
    order, places = np.empty(most, np.int64), np.empty((2, depth), np.int64)
    scale, epsilon = np.float32(numbers[N_SCALE]), np.float32(numbers[N_EPSILON])
    for s in range(2):
        per = 16 // layout[s, P_V_BITS]
        for f in range(depth):
            places[s, f] = f % per * (depth // per) + f // per
    for n in range(first, last):
        task = tasks[n]
        u = task[T_UNIT]
        part = memory[0], memory[1][u], memory[2][u]
        _logits_of(q[u], part, layout, key_packs, scale, settings, task, p[u], tops[n], (words, meta, keys, sums))
        for g in range(q.shape[1]):
            if logits.size > 0:
                copy_all(p[u, g, task[T_START] : task[T_END]], logits[u, g, task[T_START] : task[T_END]])
            chances = p[u, g, task[T_START] : task[T_END]]
            totals[n, g] = _chances(chances, value_of(tops[n, g]), epsilon, settings)
        work = words, values, weights, order, acc, places
        held = accs[n % max(1, accs.shape[0])]
        _values_of(part, layout, value_packs, settings, task, p[u], out[n], held, work)


@callee
def value_of(key):
    """float32 value of an integer key with the same order."""
    return np.int32(key ^ np.int32((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@callee
def _logits_of(q, memory, layout, packs, scale, settings, task, p, tops, work):
    """p (G, tokens) <- logits of q (G, F) and the keys of one chunk; tops (G,) <- keys of their maxima."""
    images, cells, lengths = memory
    words, meta, keys, sums = work
    at = task[T_START]
    for g in range(q.shape[0]):
        tops[g] = LEAST
    for s in range(2):
        for j in range(task[T_FIRST + s], task[T_LAST + s]):
            image = images[cells[j + s * (cells.size - 1 - 2 * j)]]
            count = min(layout[s, P_TOKENS], lengths[s] - j * layout[s, P_TOKENS])
            page_keys(image, layout[s], packs[s], count, words, meta, keys)
            for g in range(q.shape[0]):
                _logits(q[g], keys, scale, settings, sums, p[g, at : at + count])
                tops[g] = _top(p[g, at : at + count], tops[g], settings[S_LANE_MAX])
            at += count


@callee
def _values_of(memory, layout, packs, settings, task, p, out, accs, work):
    """out (G, F) <- sums of the values of one chunk weighted by p (G, tokens); accs <- accumulators, if not empty."""
    images, cells, lengths = memory
    words, values, weights, order, acc, places = work
    at, before, rows = task[T_START], np.int64(0), max(np.int64(1), settings[S_ROWS])
    clear_all(acc.reshape(acc.size))
    for s in range(2):
        first, last = task[T_FIRST + s], task[T_LAST + s]
        if last > first and layout[before, P_V_BITS] != layout[s, P_V_BITS]:
            _reorder(acc, places[before], places[s], values[0])
            before = np.int64(s)
        for j in range(first, last):
            image = images[cells[j + s * (cells.size - 1 - 2 * j)]]
            count, used = min(layout[s, P_TOKENS], lengths[s] - j * layout[s, P_TOKENS]), np.int64(0)
            for row in range(rows):
                begin = used
                used = _rows_of(row, rows, settings[S_SLOTS], count, used, order)
                page_values(image, layout[s], packs[s], order[begin:used], words, values[begin:])
                for g in range(acc.shape[0]):
                    for k in range(begin, used):
                        weights[k] = p[g, at + order[k]]
                    sums = acc[g, row + settings[S_ROWS] * ((j - first) % settings[S_WARPS])]
                    if settings[S_ACC] == FP32_FMA:
                        _row_fma32(weights[begin:used], values[begin:used], sums, sums.size)
                    else:
                        row_fp32(weights[begin:used], values[begin:used], np.int64(0), sums, sums.size)
            at += count
    for g in range(acc.shape[0]):
        for i in range(accs.shape[1]):
            for f in range(out.shape[1]):
                accs[g, i, f] = canonical(acc[g, i, places[before, f]])
        _join(acc[g], settings[S_IN_TURN])
        for f in range(out.shape[1]):
            out[g, f] = acc[g, 0, places[before, f]]


@callee
def _join(acc, in_turn):
    """acc[0] <- the sum of all accumulators, in turn or by halves."""
    if in_turn:
        for i in range(1, acc.shape[0]):
            plus(acc[i], acc[0])
        return
    half = acc.shape[0] // 2
    while half > 0:
        for i in range(half):
            plus(acc[i + half], acc[i])
        half = half // 2


@callee
def _rows_of(row, rows, slots, count, used, order):
    """order[used:] <- the slots below `count` that accumulator `row` of a warp adds; returns the new `used`."""
    if rows == 1:
        for t in range(count):
            order[used + t] = t
        return used + count
    for block in range(row * slots, count, rows * slots):
        for t in range(block, min(block + slots, count)):
            order[used] = t
            used += 1
    return used


@callee
def _reorder(acc, before, after, work):
    """Features of accumulators (G, A, F) from the places `before` to the places `after`, see `page_values`."""
    for g in range(acc.shape[0]):
        for i in range(acc.shape[1]):
            x = acc[g, i]
            for f in range(x.size):
                work[f] = x[before[f]]
            for f in range(x.size):
                x[after[f]] = work[f]


@callee
def _row_fma32(a, b, out, width):
    """out[:width] += a[k] * b[k, :width], fused, k ascending."""
    terms = b.shape[0] - b.shape[0] % 4
    for k in range(0, terms, 4):
        p = a[k:]
        p0, p1, p2, p3, b0, b1, b2, b3 = p[0], p[1], p[2], p[3], b[k], b[k + 1], b[k + 2], b[k + 3]
        for n in range(width):
            out[n] = fma32(p3, b3[n], fma32(p2, b2[n], fma32(p1, b1[n], fma32(p0, b0[n], out[n]))))
    for k in range(terms, b.shape[0]):
        p0, b0 = a[k], b[k]
        for n in range(width):
            out[n] = fma32(p0, b0[n], out[n])


@kernel
def _logits(q, keys, scale, settings, sums, out):
    """out (tokens,) <- scaled products of one query with the first keys of a page; a tree over `S_SUMS` sums."""
    count, left = settings[S_SUMS], out.size
    size = q.size // count
    for g in range(count):
        clear_all(sums[g, :left])
        part, rows = q[g * size : (g + 1) * size], keys[g * size : (g + 1) * size]
        if settings[S_ACC] == FP32_FMA:
            _row_fma32(part, rows, sums[g], left)
        else:
            row_fp32(part, rows, np.int64(0), sums[g], left)
    while count > 1:
        for g in range(count // 2):
            first, second, into = sums[2 * g], sums[2 * g + 1], sums[g]
            for t in range(left):
                into[t] = first[t] + second[t]
        if count % 2 == 1:
            copy_all(sums[count - 1, :left], sums[count // 2, :left])
        count = (count + 1) // 2
    for t in range(left):
        out[t] = canonical(sums[0, t] * scale)


@callee
def _top(x, top, lane_max):
    """The largest of `top` and the keys of x, or with `lane_max` of every fourth slot."""
    for t in range(0, x.size, 1 + 3 * lane_max):
        word = np.float32(x[t]).view(np.int32)
        top = max(top, np.int32(word ^ np.int32((word >> np.int32(31)) & np.int32(0x7FFFFFFF))))
    return top


@callee
def _chances(x, top, eps, settings):
    """x <- exp(x - top) divided by their sum; returns the sum."""
    for t in range(x.size):
        x[t] = exp(x[t] - top)
    total = np.float32(0)
    if settings[S_ROWS] == 0:
        for t in range(x.size):
            total = np.float32(total + x[t])
    else:
        lanes = np.zeros(settings[S_THREADS], np.float32)
        for t0 in range(0, x.size, lanes.size):
            part = x[t0 : t0 + lanes.size]
            plus(part, lanes[: part.size])
        total = tree_of_lanes(lanes)
    bottom = np.float32(total + eps)
    if settings[S_RECIP]:
        inverse = np.float32(ONE / bottom)
        for t in range(x.size):
            x[t] = canonical(x[t] * inverse)
    else:
        for t in range(x.size):
            x[t] = canonical(x[t] / bottom)
    return total


@callee
def tree_of_lanes(lanes):
    """The sum of all lanes: halves within each warp, then halves of the warps' results."""
    warp = min(lanes.size, WARP)
    half = warp // 2
    while half > 0:
        for w in range(0, lanes.size, warp):
            for i in range(w, w + half):
                lanes[i] = lanes[i] + lanes[i + half]
        half = half // 2
    half = lanes.size // warp // 2
    while half > 0:
        for w in range(half):
            lanes[w * warp] = lanes[w * warp] + lanes[(w + half) * warp]
        half = half // 2
    return lanes[0]
