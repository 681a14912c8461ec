"""Attention of a Harmonia scheme: queries times keys, softmax, scores times values, all in BFP [harmonia §III-A].

Query head h reads KV head h // (heads / KV heads). Queries are grouped along the head, scores along the keys by their
absolute position, as the groups of V are (D-harmonia-16). Keys that a query does not see are never computed: their
scores are +0. A score is FP16 before it is scaled (D-harmonia-27, D-harmonia-28); a model's soft cap, ALiBi and sliding
window follow the scale, in float32 (D-harmonia-56).
"""

import functools
from typing import Protocol

import numpy as np

from refemu.arith.attention.scores import ScoreRule
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.schemes.harmonia.cache import Falling, HarmoniaCache, Held
from refemu.models.schemes.harmonia.steps import Scoring, Units
from refemu.models.taps import Watch


class Taps(Protocol):
    """Observer of the attention of a block."""

    def prompt(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """Called once for a prompt, with all of its queries."""

    def decoded(self, q: np.ndarray, cache: HarmoniaCache, held: Held) -> None:
        """Called for every later token."""


def attention(
    units: Units, q: np.ndarray, cache: HarmoniaCache, scoring: Scoring, watch: Watch, taps: Taps | None = None
) -> np.ndarray:
    """Context (tokens, heads * head_dim) of the queries q (tokens, heads, head_dim) of the last tokens of the cache."""
    if cache.waiting:
        rows = []
        for query in q:
            for counter, number in cache.advance().items():
                watch.count(counter, number)
            held = cache.held()
            rows.append(attend(units, query[None], held, held.tokens - 1, scoring, cache.name))
            if taps is not None:
                taps.decoded(query[None], cache, held)
        return np.concatenate(rows).reshape(len(q), -1)
    if taps is not None:
        taps.prompt(q, cache, cache.held())
    watch.count("v_conversions", -(-len(q) // cache.config.group))
    watch.count("v_commits", len(q) // cache.config.group)
    if cache.config.prefill_window == "query":
        context = attend_falling(units, q, cache.falling(), scoring, cache.name)
    else:
        context = attend(units, q, cache.held(), 0, scoring, cache.name)
    cache.settle()
    return context.reshape(len(q), -1)


def attend(units: Units, q: np.ndarray, held: Held, start: int, scoring: Scoring, name: str = "") -> np.ndarray:
    """Context of queries q (T, heads, head_dim), fp16 values; query t sees keys 0 to start + t of `held`.

    Values after the last visible key, in its group, may be anything. Returns fp16 values like q. name: layer.
    """
    form = functools.partial(by_heads, units, q, held, start, scoring, name)
    if not units.compiled:
        return form()
    from refemu.models.schemes.harmonia.compiled import attention as harmonia_attention_compiled

    return harmonia_attention_compiled.attended(form, units, q, held, start, scoring)


def attend_falling(units: Units, q: np.ndarray, falling: Falling, scoring: Scoring, name: str = "") -> np.ndarray:
    """`attend` for a whole prompt q (T, heads, head_dim), whose queries each see their keys in different bits."""

    def form() -> np.ndarray:
        queries = enumerate(falling.by_query())
        return np.concatenate([by_heads(units, q[t : t + 1], held, t, scoring, name) for t, held in queries])

    if not units.compiled:
        return form()
    from refemu.models.schemes.harmonia.compiled import attention as harmonia_attention_compiled

    return harmonia_attention_compiled.attended(form, units, q, falling.high, 0, scoring, falling)


def by_heads(units: Units, q: np.ndarray, held: Held, start: int, scoring: Scoring, name: str = "") -> np.ndarray:
    """`attend` step by step."""
    out = np.empty(q.shape, np.float32)
    group = q.shape[1] // held.heads
    seen = np.tile(start + 1 + np.arange(len(q)), group)
    for shared in range(held.heads):
        some = slice(shared * group, (shared + 1) * group)
        rows = np.ascontiguousarray(q[:, some].transpose(1, 0, 2)).reshape(group * len(q), -1)
        k, v = held.head(shared)
        slopes = slopes_of(scoring.rule, some, len(q))
        p = scores(units, rows, k, v.shape[0], seen, scoring, name, slopes)[1]
        out[:, some] = units.half(units.dot(p, v)).reshape(group, len(q), -1).transpose(1, 0, 2)
    return out


def slopes_of(rule: ScoreRule, heads: slice, tokens: int) -> np.ndarray | None:
    """Slopes of ALiBi for rows (tokens of some query heads), (rows, 1); None without ALiBi."""
    return np.repeat(np.array(rule.slopes[heads], np.float32), tokens)[:, None] if rule.slopes else None


def scores(
    units: Units,
    q: np.ndarray,
    k: BfpTensor,
    length: int,
    seen: np.ndarray,
    scoring: Scoring,
    name: str,
    slopes: np.ndarray | None = None,
) -> tuple[BfpTensor, BfpTensor]:
    """Codes of queries (rows, head_dim) and of their scores (rows, length), +0 for invisible keys.

    seen: visible keys of each row. slopes: (rows, 1).
    """
    activations = units.config.format(units.config.act_mantissa)
    query = units.encode(activations, units.words(q), name=f"{name}.q")
    p = shares(units, units.dot(query, k), seen, scoring, slopes)
    words = np.zeros((len(q), length), np.uint16)
    words[:, : p.shape[1]] = units.words(p)
    return query, units.encode(activations, words, name=f"{name}.scores")


def shares(
    units: Units, sums: np.ndarray, seen: np.ndarray, scoring: Scoring, slopes: np.ndarray | None = None
) -> np.ndarray:
    """Softmax of FP32 products of queries and keys (rows, keys): fp16 values, +0 for invisible keys."""
    x = scoring.rule.apply(logits(units, sums, scoring.scale), slopes, seen[:, None])
    return units.softmax(np.where(scoring.rule.hides(sums.shape[1], seen), np.float32(-np.inf), x))


def logits(units: Units, sums: np.ndarray, scale: np.float32) -> np.ndarray:
    """FP32 products of queries and keys, scaled (D-harmonia-27, D-harmonia-28)."""
    scaled = units.half(sums) if units.config.scores == "fp16" else sums
    return scaled if units.config.score_scale == "fold" else scaled * scale
