"""Attention of a Harmonia scheme: queries times keys, softmax, scores times values, all in BFP [harmonia §III-A].

Query head h reads KV head h // (heads / KV heads). Queries are grouped along the head, scores along the keys by their
absolute position, as the groups of V are (D-harmonia-16). Keys that a query does not see are never computed: their
scores are +0. A score is FP16 before it is scaled (D-harmonia-27, D-harmonia-28).
"""

from typing import Protocol

import numpy as np

from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.schemes.harmonia.cache import Falling, HarmoniaCache, Held
from refemu.models.schemes.harmonia.steps import Units
from refemu.models.taps import Watch


class Taps(Protocol):
    """What listens to the attention of a block."""

    def prompt(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """Called once for a prompt, with all of its queries."""

    def decoded(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """Called for every later token."""


def attention(units: Units, q: np.ndarray, cache: HarmoniaCache, watch: Watch, taps: Taps | None = None) -> np.ndarray:
    """Context of the tokens of q (tokens, heads, head_dim), which the cache holds last: (tokens, heads * head_dim)."""
    if cache.waiting:
        rows = []
        for query in q:
            for counter, number in cache.advance().items():
                watch.count(counter, number)
            held = cache.held()
            rows.append(attend(units, query[None], held, held.tokens - 1, cache.name))
            if taps is not None:
                taps.decoded(query[None], cache, held)
        return np.concatenate(rows).reshape(len(q), -1)
    if taps is not None:
        taps.prompt(q, cache, cache.held())
    watch.count("v_conversions", -(-len(q) // cache.config.group))
    watch.count("v_commits", len(q) // cache.config.group)
    if cache.config.prefill_window == "query":
        context = attend_falling(units, q, cache.falling(), cache.name)
    else:
        context = attend(units, q, cache.held(), 0, cache.name)
    cache.settle()
    return context.reshape(len(q), -1)


def attend(units: Units, q: np.ndarray, held: Held, start: int, name: str = "") -> np.ndarray:
    """Queries q (T, heads, head_dim), fp16 values, query t seeing keys 0 to start + t of `held`; the shape of q.

    Values may stand beyond the last key that is seen, in its group. Returns fp16 values. name: of the layer.
    """
    if units.compiled:
        from refemu.models.schemes.harmonia.twins import attention as harmonia_attention_jit

        attended = harmonia_attention_jit.attend(units, q, held, start)
        if attended is not None:
            return attended
    return by_heads(units, q, held, start, name)


def attend_falling(units: Units, q: np.ndarray, falling: Falling, name: str = "") -> np.ndarray:
    """`attend` of a whole prompt q (T, heads, head_dim), whose queries see their keys in bits of their own."""
    if units.compiled:
        from refemu.models.schemes.harmonia.twins import attention as harmonia_attention_jit

        attended = harmonia_attention_jit.attend(units, q, falling.high, 0, falling)
        if attended is not None:
            return attended
    return np.concatenate([by_heads(units, q[t : t + 1], held, t, name) for t, held in enumerate(falling.by_query())])


def by_heads(units: Units, q: np.ndarray, held: Held, start: int, name: str = "") -> np.ndarray:
    """`attend` step by step."""
    out = np.empty(q.shape, np.float32)
    group = q.shape[1] // held.heads
    for shared in range(held.heads):
        some = slice(shared * group, (shared + 1) * group)
        rows = np.ascontiguousarray(q[:, some].transpose(1, 0, 2)).reshape(group * len(q), -1)
        mixed = _head(units, rows, *held.head(shared), np.tile(start + 1 + np.arange(len(q)), group), name)
        out[:, some] = mixed.reshape(group, len(q), -1).transpose(1, 0, 2)
    return out


def _head(units: Units, q: np.ndarray, k: BfpTensor, v: BfpTensor, seen: np.ndarray, name: str) -> np.ndarray:
    """One KV head: queries (rows, head_dim), row r seeing the first seen[r] keys; (rows, head_dim)."""
    return units.half(units.dot(scores(units, q, k, v.shape[0], seen, name)[1], v))


def scores(
    units: Units, q: np.ndarray, k: BfpTensor, length: int, seen: np.ndarray, name: str
) -> tuple[BfpTensor, BfpTensor]:
    """Codes of queries (rows, head_dim) and of their scores (rows, length), +0 for keys that are not seen."""
    activations = units.config.format(units.config.act_mantissa)
    query = units.encode(activations, units.words(q), name=f"{name}.q")
    sums = units.dot(query, k)
    hidden = np.arange(sums.shape[1]) >= seen[:, None]
    softmax = units.softmax(np.where(hidden, np.float32(-np.inf), logits(units, sums, q.shape[1])))
    p = np.zeros((len(q), length), np.uint16)
    p[:, : sums.shape[1]] = units.words(softmax)
    return query, units.encode(activations, p, name=f"{name}.scores")


def logits(units: Units, sums: np.ndarray, head_dim: int) -> np.ndarray:
    """FP32 sums of queries times keys as the softmax takes them (D-harmonia-27, D-harmonia-28)."""
    scaled = units.half(sums) if units.config.scores == "fp16" else sums
    return scaled if units.config.score_scale == "fold" else scaled * np.float32(1 / np.sqrt(np.float64(head_dim)))
