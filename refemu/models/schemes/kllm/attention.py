"""Attention of a KLLM scheme: K-Means x K-Means, softmax, integer x K-Means [kllm §III-A, §IV-A].

Query head h reads KV head h // group. A query sees the keys up to its own, in a prompt as in a decode step; what it
does not see scores 0 and adds nothing. 1 / sqrt(head_dim) is in the scales of q's weights (D-kllm-35).
"""

from typing import NamedTuple

import numpy as np

from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import IndexCache, cut
from refemu.models.schemes.kllm.operands import Operands
from refemu.units.kllm.index_matmul import Scores


class Attention(NamedTuple):
    """Attention of some tokens over all that a cache holds; their keys and values are the last ones in it."""

    q: KMeansTensor
    logits: np.ndarray  #: float16 (tokens, keys), of query head 0
    scores: Scores  #: of query head 0
    context: np.ndarray  #: fp16 values in float32 (tokens, heads * dim)

    @property
    def outliers(self) -> int:
        """Of q."""
        return self.q.outlier.size


def attention(operands: Operands, q: KMeansTensor, cache: IndexCache) -> Attention:
    """Attention of the tokens of q, whose keys and values the cache holds last.

    The query heads of one KV head stand below each other, token by token, as rows of one product.
    """
    sizes, tokens = operands.sizes, q.shape[0]
    group = sizes.heads // sizes.kv_heads
    context = np.empty((tokens, sizes.kv_heads, group * sizes.head_dim), np.float32)
    for head in range(sizes.kv_heads):
        logits, rows, mixed = kv_head(operands, q, cache, head)
        context[:, head] = mixed.reshape(tokens, -1)
        if head == 0:
            alone = slice(None, None, group)  # rows of query head 0
            first = logits[alone], Scores(rows.q[alone], rows.scale[alone], rows.p[alone], rows.fold)
    return Attention(q, *first, context.reshape(tokens, -1))


def kv_head(operands: Operands, q: KMeansTensor, cache: IndexCache, head: int) -> tuple[np.ndarray, Scores, np.ndarray]:
    """Logits, scores and weighted values of the query heads that read one KV head; rows (tokens * group)."""
    sizes, tokens, length = operands.sizes, q.shape[0], len(cache)
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    queries = cut(q, slice(head * group * dim, (head + 1) * group * dim), group)
    columns = slice(head * dim, (head + 1) * dim)
    keys, values = (side.tensor(length, columns) for side in (cache.k, cache.v))
    logits = operands.units.product(queries, operands.units.prepare(keys), seen)
    rows = scores(operands, logits, cache, seen)
    return logits, rows, operands.units.mix(rows, operands.units.prepare(values, integer=True), seen)


def scores(operands: Operands, logits: np.ndarray, cache: IndexCache, seen: np.ndarray) -> Scores:
    """Softmax of float16 logits (queries, keys) over the keys that each sees, and their integers."""
    config = operands.config
    hidden = np.arange(logits.shape[1]) >= seen[:, None]
    p = operands.units.softmax(np.where(hidden, np.float16(-np.inf), logits))
    scale = cache.v.scale(len(cache)) if config.score_scale == "fold" else None
    return operands.units.quantize_scores(p, scale, config.integer_bits, config.score_scale)
