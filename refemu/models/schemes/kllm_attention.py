"""Attention of a KLLM scheme: K-Means x K-Means, softmax, integer x K-Means [kllm §III-A, §IV-A].

Query head h reads KV head h // group. A query sees the keys up to its own, in a prompt as in a decode step; what it
does not see scores 0 and adds nothing. 1 / sqrt(head_dim) is in the scales of q's weights (D-kllm-35).
"""

from typing import TYPE_CHECKING

import numpy as np

from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm_cache import IndexCache, cut
from refemu.units.index_matmul_parts import Scores

if TYPE_CHECKING:
    from refemu.models.schemes.kllm_layers import Kllm
    from refemu.models.taps import Watch


def attention(parts: "Kllm", layer: int, q: KMeansTensor, cache: IndexCache, watch: "Watch") -> np.ndarray:
    """Context of the tokens of q, whose keys and values the cache holds last: fp16 values (tokens, heads * dim).

    The query heads of one KV head stand below each other, token by token, as rows of one product.
    """
    sizes, tokens, length = parts.model, q.shape[0], len(cache)
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    context = np.empty((tokens, sizes.kv_heads, group * dim), np.float32)
    for shared in range(sizes.kv_heads):
        queries = cut(q, slice(shared * group * dim, (shared + 1) * group * dim), group)
        columns = slice(shared * dim, (shared + 1) * dim)
        keys, values = (held.tensor(length, columns) for held in (cache.k, cache.v))
        logits = parts.units.product(queries, parts.units.prepare(keys), seen)
        found = scores(parts, logits, cache, seen)
        mixed = parts.units.mix(found, parts.units.prepare(values, integer=True), seen)
        context[:, shared] = mixed.reshape(tokens, -1)
        if watch.taps is not None and shared == 0:
            taps, own = parts.taps(layer, watch), slice(None, None, group)  # rows of head 0
            taps.product(f"blk.{layer}.logits", cut(q, slice(dim)), keys)
            taps.softmax(f"blk.{layer}.logits", logits[own], seen[own])
            first = Scores(found.q[own], found.scale[own], found.p[own], found.fold)
            taps.scores(f"blk.{layer}.scores", first, cache.v.scale(length), values, seen[own])
    return context.reshape(tokens, -1)


def scores(parts: "Kllm", logits: np.ndarray, cache: IndexCache, seen: np.ndarray) -> Scores:
    """Softmax of float16 logits (queries, keys) over the keys that each sees, and their integers."""
    config = parts.kllm
    hidden = np.arange(logits.shape[1]) >= seen[:, None]
    p = parts.units.softmax(np.where(hidden, np.float16(-np.inf), logits))
    fold = config.score_scale == "fold"
    scale = cache.v.scale(len(cache)) if fold else None
    return parts.units.quantize_scores(p, scale, config.integer_bits, config.score_scale)
