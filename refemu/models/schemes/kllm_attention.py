"""Attention of a KLLM scheme: K-Means x K-Means, softmax, integer x K-Means, head by head [kllm §III-A, §IV-A].

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
    """Context of the tokens of q, whose keys and values the cache holds last: fp16 values (tokens, heads * dim)."""
    sizes, tokens, length = parts.model, q.shape[0], len(cache)
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    seen = np.arange(length - tokens + 1, length + 1)
    heads = [slice(head * dim, (head + 1) * dim) for head in range(sizes.heads)]
    context = np.empty((tokens, sizes.heads * dim), np.float32)
    taps = None if watch.taps is None else parts.taps(layer, watch)
    for shared in range(sizes.kv_heads):
        keys, values = (held.tensor(length, heads[shared]) for held in (cache.k, cache.v))
        k, v = parts.units.prepare(keys), parts.units.prepare(values, integer=True)
        for head in range(shared * group, (shared + 1) * group):
            query = cut(q, heads[head])
            logits = parts.units.product(query, k, seen)
            found = scores(parts, logits, cache, seen)
            context[:, heads[head]] = parts.units.mix(found, v, seen)
            if taps is not None and head == 0:
                taps.product(f"blk.{layer}.logits", query, keys)
                taps.softmax(f"blk.{layer}.logits", logits, seen)
                taps.scores(f"blk.{layer}.scores", found, cache.v.scale(length), values, seen)
    return context


def scores(parts: "Kllm", logits: np.ndarray, cache: IndexCache, seen: np.ndarray) -> Scores:
    """Softmax of float16 logits (tokens, keys) over the keys that a query sees, and their integers."""
    config = parts.kllm
    hidden = np.arange(logits.shape[1]) >= seen[:, None]
    p = parts.units.softmax(np.where(hidden, np.float16(-np.inf), logits))
    fold = config.score_scale == "fold"
    scale = cache.v.scale(len(cache)) if fold else None
    return parts.units.quantize_scores(p, scale, config.integer_bits, config.score_scale)
