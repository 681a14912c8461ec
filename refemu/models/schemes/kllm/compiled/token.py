"""Steps of a decoder on K-Means indices, for one token: root of a norm, scores, function times indices. [kllm §III]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.scalars import narrow, round16, widen

INFINITE = np.float32(np.inf)


@kernel
def kmeans_root(index, mask, value, scale, squares, eps, entries, divided):
    """Root mean square of a vector from its counts, float32; divided <- round16(entries / root).

    index, mask, value (1, K): indices, whether outliers, and their values. scale: float32. squares: float32, of
    centroids. Returns the root and round16(scale / root). Every operation is rounded to float32.
    """
    counts = np.zeros(squares.size, np.int64)
    apart, dense = np.float32(0), np.float32(0)
    for k in range(index.shape[1]):
        if mask[0, k]:
            apart = np.float32(apart + np.float32(value[0, k] * value[0, k]))
        else:
            counts[index[0, k]] += 1
    for i in range(squares.size):
        dense = np.float32(dense + np.float32(np.float32(counts[i]) * squares[i]))
    whole = np.float32(np.float64(scale) * np.float64(scale) * np.float64(dense))
    square = np.float32(np.float64(np.float32(whole + apart)) / np.float64(index.shape[1]))
    root = np.float32(np.sqrt(np.float64(np.float32(square + np.float32(eps)))))
    for i in range(entries.shape[0]):
        for j in range(entries.shape[1]):
            divided[i, j] = round16(entries[i, j] / root)
    return root, round16(np.float32(np.float32(scale) / root))


@kernel
def kmeans_scores(logits, exp, v_scale, largest, p, q, scale):
    """Softmax of rows in fp16 with a float32 sum, then integers of the scores times V's scales.

    logits: float32 (H, at least T), fp16 values. exp: uint16 (65536,), a table of words. v_scale: uint16 (at least T,),
    words. p: float32 (H, T), the scores. q: uint8 (H, T). scale: float64 (H,), value of an integer 1.
    Returns whether an input is invalid: NaN, +Inf, a row of -Inf, a product beyond fp16.
    """
    folded = np.empty(p.shape[1], np.float32)
    for h in range(p.shape[0]):
        x, row = logits[h], p[h]
        top = -INFINITE
        for t in range(row.size):
            if not x[t] < INFINITE:
                return True
            top = max(top, x[t])
        if top == -INFINITE:
            return True
        total, peak = np.float32(0), np.float32(0)
        for t in range(row.size):
            row[t] = widen(exp[narrow(np.float32(x[t] - top))])
            total = np.float32(total + row[t])
        for t in range(row.size):
            row[t] = round16(row[t] / total)
            folded[t] = round16(row[t] * widen(v_scale[t]))
            peak = max(peak, folded[t])
        if peak == INFINITE:
            return True
        divisor = max(np.float64(peak), np.float64(5e-324))
        for t in range(row.size):
            q[h, t] = np.uint8(np.int64(np.rint(np.float64(folded[t]) * np.float64(largest) / divisor)))
        scale[h] = np.float64(1)
        if peak > np.float32(0):
            scale[h] = np.float64(round16(np.float32(np.float64(peak) / np.float64(largest))))
    return False


@kernel
def kmeans_function(index, mask, word, scale, centroids, function, entries, value):
    """entries (C,) <- f(r16(scale * centroid)), a zero as +0; value (1, N) <- f of every element.

    Where masked, f of `word`. function: uint16 (65536,), words of f. scale: float32. Returns whether a value exceeded
    fp16.
    """
    bad = False
    for i in range(entries.size):
        entries[i] = widen(function[narrow(np.float32(scale * centroids[i]))]) + np.float32(0)  # -0 is stored as +0
        bad |= not abs(entries[i]) < INFINITE
    for n in range(value.shape[1]):
        x = entries[index[0, n]]
        if mask[0, n]:
            x = widen(function[word[0, n]])
            bad |= not abs(x) < INFINITE
        value[0, n] = x
    return bad


@kernel
def kmeans_gated(a_index, a_mask, a_value, a_entries, b_index, b_mask, b_value, b_scale, b_centroids, out):
    """out (1, N) <- round16(b_scale * r16(a * b)) by a table of all pairs of entries and centroids.

    Where either is an outlier, the product of `a_value` and `b_value`. b_scale: float32; the scale of a is 1. Returns
    whether a value exceeded fp16.
    """
    size, bad = b_centroids.size, False
    table = np.empty(a_entries.size * size, np.float32)
    for i in range(a_entries.size):
        for j in range(size):
            product = round16(np.float32(a_entries[i] * b_centroids[j])) + np.float32(0)
            bad |= not abs(product) < INFINITE
            table[i * size + j] = round16(np.float32(b_scale * product))
    for n in range(out.shape[1]):
        if a_mask[0, n] | b_mask[0, n]:
            y = round16(np.float32(a_value[0, n] * b_value[0, n]))
            bad |= not abs(y) < INFINITE
            out[0, n] = y
        else:
            out[0, n] = table[np.int64(a_index[0, n]) * size + np.int64(b_index[0, n])]
    return bad


@kernel
def kmeans_lay_out(index, mask, word, first, last, side, laid, starts, places, values):
    """laid <- tokens first to last of index (T, heads * dim): columns of each head (side 0, keys) or rows (1, values).

    Outliers are in ascending order of their position in the sum: for keys the element, for values the token.
    """
    heads = laid.shape[0]
    dim = index.shape[1] // heads
    for h in range(heads):
        for t in range(first, last):
            for i in range(dim):
                n = h * dim + i
                k, column = i, t
                if side == 1:
                    k, column = t, i
                laid[h, k, column] = index[t, n]
                if mask[t, n]:
                    _insert(places[h], values[h], starts[h], k, column, widen(word[t, n]))


@callee
def _insert(places, values, starts, k, column, value):
    """Append an outlier to those of position k."""
    at = starts[k + 1]
    for j in range(starts[starts.size - 1] - 1, at - 1, -1):
        places[j + 1], values[j + 1] = places[j], values[j]
    places[at], values[at] = column, value
    for i in range(k + 1, starts.size):
        starts[i] += 1
