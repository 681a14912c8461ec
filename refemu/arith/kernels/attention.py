"""Heads of float attention."""

import numpy as np

from refemu.arith.jit import inlined, kernel
from refemu.arith.kernels.matmul import PAD, block_fp32, row_fp32
from refemu.arith.kernels.orders import clear_all, copy_all, plus, total_rows
from refemu.arith.kernels.rows import shifted_exp
from refemu.arith.kernels.scalars import canonical, round16, tanh


@kernel
def attention_heads(q, k, v, scale, start, out, paid, counting, window, cap, slopes, first, last):
    """`dot.attention` for key heads `first` to `last`; paid (KV, heads, S) += what queries pay to tokens, in turn.

    Nobody counts where `paid` is empty, else start is 0. counting: the first query that counts, and whether its own
    token is counted too or those before it only. A row that has no probabilities (NaN) makes counting[2] 1.

    window, cap, slopes: fields of the `ScoreRule`.

    Eight rows at a time: row r is query r // heads, head r % heads. The keys that all eight see take one block; then
    each row adds the few that it sees besides. One kernel for both: as callers of a third they were compiled thrice.
    """
    heads, depth, seen = q.shape[1] // k.shape[1], q.shape[2], start + q.shape[0]
    keys, values = np.empty((depth, seen + PAD + seen % 32), np.float32), np.empty((seen, depth), np.float32)
    logits, chances = np.empty((8, seen + PAD), np.float32), np.empty((8, seen + PAD), np.float32)
    queries, sums, total = np.empty((8, depth), np.float32), np.empty((8, depth), np.float32), np.empty(8, np.float32)
    clear_all(queries.reshape(queries.size))
    for shared in range(first, last):
        _transpose(k, shared, keys, seen)
        for j in range(seen):
            copy_all(v[j, shared], values[j])
        for r0 in range(0, q.shape[0] * heads, 8):
            rows = min(8, q.shape[0] * heads - r0)
            least, most = start + r0 // heads + 1, start + (r0 + rows - 1) // heads + 1  # keys of the first, the last
            for i in range(rows):
                copy_all(q[(r0 + i) // heads, shared * heads + (r0 + i) % heads], queries[i])
                clear_all(logits[i, :most])
                clear_all(chances[i, :most])  # a key that is not seen adds +0, to no effect
                clear_all(sums[i])
            clear_all(total)
            block_fp32(queries, np.int64(0), keys, logits[:rows], most)
            for i in range(rows):
                reach = start + (r0 + i) // heads + 1
                low = max(0, reach - window)
                for j in range(low, reach):
                    logits[i, j] = logits[i, j] * scale
                if cap > 0:
                    for j in range(low, reach):
                        logits[i, j] = cap * tanh(np.float32(logits[i, j] / cap))
                if slopes.size > 0:
                    slope = slopes[shared * heads + (r0 + i) % heads]
                    for j in range(low, reach):
                        logits[i, j] = logits[i, j] + np.float32(slope * np.float32(j - reach + 1))
                shifted_exp(logits[i, low:reach], chances[i, low:reach])
            total_rows(chances, most, total[:rows])
            for i in range(rows):
                for j in range(most):
                    chances[i, j] = chances[i, j] / total[i]
                if paid.shape[0] > 0 and start + (r0 + i) // heads >= counting[0]:
                    counting[2] |= np.int64(total[i] != total[i])
                    plus(
                        chances[i, : (r0 + i) // heads + counting[1]],
                        paid[shared, (r0 + i) % heads, : (r0 + i) // heads + counting[1]],
                    )
            block_fp32(chances, np.int64(0), values[:least], sums[:rows], depth)
            for i in range(rows):
                reach, o = start + (r0 + i) // heads + 1, out[(r0 + i) // heads, shared * heads + (r0 + i) % heads]
                row_fp32(chances[i, least:reach], values[least:reach], np.int64(0), sums[i], depth)
                for d in range(depth):
                    o[d] = canonical(round16(sums[i, d]))


@inlined
def _transpose(k, shared, keys, seen):
    """keys (D, ...) <- head `shared` of k (S, KV, D), sixteen positions at a time."""
    for j0 in range(0, seen, 16):
        for d in range(k.shape[2]):
            row = keys[d]
            for j in range(j0, min(j0 + 16, seen)):
                row[j] = k[j, shared, d]
