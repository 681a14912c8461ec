"""Attention of a KLLM scheme: K-Means x K-Means, softmax, integer x K-Means [kllm §III-A, §IV-A].

Query head h reads KV head h // group. A query sees the keys up to its own, in a prompt as in a decode step; invisible
keys score 0 and add nothing. 1 / sqrt(head_dim) is in the scales of q's weights (D-kllm-35). Soft cap, ALiBi and
sliding window of a model act on the FP16 logits, in FP16 steps (D-kllm-65).
"""

from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.attention.scores import PLAIN, ScoreRule
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import IndexCache, cut
from refemu.models.schemes.kllm.operands import Operands
from refemu.units.kllm.index_matmul import Scores


class Attention(NamedTuple):
    """Attention of some tokens over the whole cache, whose last keys and values are theirs."""

    q: KMeansTensor
    logits: np.ndarray  #: float16 (tokens, keys), inputs of the softmax for query head 0
    scores: Scores  #: scores of query head 0
    context: np.ndarray  #: fp16 values in float32 (tokens, heads * dim)

    @property
    def outliers(self) -> int:
        """Number of outliers of q."""
        return self.q.outlier.size


class Head(NamedTuple):
    """Query heads with one KV head: a row per token and query head."""

    number: int  #: number of the KV head
    queries: KMeansTensor  #: (rows, dim)
    keys: KMeansTensor  #: (keys, dim)
    values: KMeansTensor
    seen: np.ndarray  #: (rows,) number of visible keys
    logits: np.ndarray  #: float16 (rows, keys)
    scores: Scores
    context: np.ndarray  #: float16 (rows, dim)

    @property
    def sees(self) -> np.ndarray:
        """The keys that each row sees, a mask (rows, keys)."""
        return np.arange(self.keys.shape[0]) < self.seen[:, None]


def attention(operands: Operands, q: KMeansTensor, cache: IndexCache, rule: ScoreRule = PLAIN) -> Attention:
    """Attention of the tokens of q, whose keys and values are the last in the cache.

    The query heads of one KV head are rows of one product, token by token.
    """
    sizes, tokens = operands.sizes, q.shape[0]
    group = sizes.heads // sizes.kv_heads
    context = np.empty((tokens, sizes.kv_heads, group * sizes.head_dim), np.float32)
    for head in range(sizes.kv_heads):
        rows = kv_head(operands, q, cache, head, rule)
        context[:, head] = rows.context.reshape(tokens, -1)
        if head == 0:
            alone, whole = slice(None, None, group), rows.scores  # rows of query head 0
            first = rows.logits[alone], Scores(whole.q[alone], whole.scale[alone], whole.p[alone], whole.fold)
    return Attention(q, *first, context.reshape(tokens, -1))


def kv_head(operands: Operands, q: KMeansTensor, cache: IndexCache, head: int, rule: ScoreRule = PLAIN) -> Head:
    """Operands, logits, scores and weighted values of the query heads with one KV head."""
    sizes, tokens, length = operands.sizes, q.shape[0], len(cache)
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    queries = cut(q, slice(head * group * dim, (head + 1) * group * dim), group)
    columns = slice(head * dim, (head + 1) * dim)
    keys, values = (side.tensor(length, columns) for side in (cache.k, cache.v))
    slopes = np.tile(np.array(rule.slopes[head * group : (head + 1) * group], np.float32), tokens)
    logits = shaped(operands, operands.units.product(queries, operands.units.prepare(keys), seen), rule, slopes, seen)
    rows = scores(operands, logits, cache, rule.hides(length, seen))
    context = operands.units.mix(rows, operands.units.prepare(values, integer=True), seen)
    return Head(head, queries, keys, values, seen, logits, rows, context)


def shaped(operands: Operands, logits: np.ndarray, rule: ScoreRule, slopes: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """float16 logits (queries, keys) under a soft cap, or with slope times distance, every step FP16 (D-kllm-65).

    slopes: float32 of each query, or none. seen: (queries,), number of visible keys.
    """
    x = logits
    if rule.cap:
        cap = fp16.to_f16(np.float32(rule.cap))
        x = fp16.to_f16(fp16.mul16(cap, operands.backend.apply16("tanh", fp16.div16(x, cap))))
    if slopes.size:
        distance = (np.arange(x.shape[1]) - (seen[:, None] - 1)).astype(np.float32)
        x = fp16.to_f16(fp16.add16(x, fp16.to_f16(slopes[:, None] * distance)))
    return x


def scores(operands: Operands, logits: np.ndarray, cache: IndexCache, hidden: np.ndarray) -> Scores:
    """Softmax of float16 logits (queries, keys) over the visible keys, and their integers."""
    config = operands.config
    p = operands.units.softmax(np.where(hidden, np.float16(-np.inf), logits))
    scale = cache.v.scale(len(cache)) if config.score_scale == "fold" else None
    return operands.units.quantize_scores(p, scale, config.integer_bits, config.score_scale)
