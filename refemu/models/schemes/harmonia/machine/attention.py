"""The products of the attention at the ports of `harmonia_core`: all query heads in turn.

Paper: [harmonia §III-A, §IV-A]. Decisions: D-harmonia-16 (scores along the keys), D-harmonia-46 (codes by query),
D-harmonia-47 (context of short heads).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.machine.report import Operation
from refemu.models.schemes.harmonia import attention as scheme
from refemu.models.schemes.harmonia.machine.memory import Memory
from refemu.models.schemes.harmonia.machine.ports import Ports
from refemu.models.schemes.harmonia.steps import Scoring
from refemu.units.unit import Config


def attention(memory: Memory, output: np.ndarray) -> Iterator[Operation]:
    """Scores after their softmax, then the context, compared with the scheme's.

    output: context of the scheme (tokens, heads * head_dim).
    """
    ports, (tokens, heads, size) = memory.ports, memory.q.shape
    words, codes = zip(*(_due(memory, head) for head in range(heads)), strict=True)
    queries = ports.encode(ports.steps.words(np.ascontiguousarray(memory.q.transpose(1, 0, 2))))
    inputs = {"a_sign": queries.sign, "a_mag": queries.mantissa, "a_exp": queries.exponent}
    config = product(ports, True, tokens, size, len(memory.cache))
    inputs |= _right(memory, heads, True)
    yield ports.multiply("scores", config, inputs, "attention", np.stack(words), _stacked(codes))[0]
    config, p = product(ports, False, tokens, size, len(memory.cache)), _stacked(codes)
    inputs = dict(zip(("a_sign", "a_mag", "a_exp"), p, strict=True)) | _right(memory, heads, False)
    due = np.ascontiguousarray(output.reshape(tokens, heads, size).transpose(1, 0, 2))
    context = ports.steps.words(due)
    done = _stacked([ports.encode(head) for head in context]) if config["kind"] == "context" else ()
    yield ports.multiply("context", config, inputs, "attention", context, done)[0]


def product(ports: Ports, score: bool, tokens: int, size: int, length: int) -> Config:
    """Configuration of queries times keys, or of scores times values, for heads of `size` and `length` keys."""
    if score:
        return ports.core("score", tokens, size, length, b_type=ports.kv_type, start=length - tokens)
    kind = "final" if size % 32 else "context"
    return ports.core(kind, tokens, length, size, b_type=ports.kv_type)


def _right(memory: Memory, heads: int, score: bool) -> dict[str, np.ndarray]:
    """Keys, or values by channel, for every query head; with both widths also the port that selects the width."""
    held = memory.held
    share = heads // held.heads
    parts = []
    for head in range(heads):
        k, v = held.head(head // share)
        side, length = (k, k.shape[0]) if score else (v, len(memory.cache))
        arrays = [side.sign[:length], side.mantissa[:length], side.exponent]
        parts.append(arrays if score else [array.T for array in arrays])
    sign, mantissa, exponent = (np.stack(part) for part in zip(*parts, strict=True))
    wide = {"wide": np.stack([memory.wide(score)] * heads)} if memory.ports.kv_type == "mixed" else {}
    zeros = np.zeros(exponent.shape, np.uint16)
    return {"b": mantissa, "b_sign": sign, "b_exp": exponent, "w_scale": zeros, **wide}


def _due(memory: Memory, head: int) -> tuple[np.ndarray, BfpTensor]:
    """The scheme's scores of a query head: words (tokens, keys) and codes."""
    cache, length = memory.cache, len(memory.cache)
    share = memory.q.shape[1] // memory.held.heads
    rows = np.ascontiguousarray(memory.q[:, head])
    if not memory.by_query:
        seen = memory.start + 1 + np.arange(len(rows))
        shared = cache.held().head(head // share)[0]
        return _shares(memory, rows, shared, seen)
    words = np.zeros((len(rows), length), np.uint16)
    for t, held in enumerate(cache.falling().by_query()):
        k = held.head(head // share)[0]
        words[t, : t + 1] = _shares(memory, rows[t : t + 1], k, np.array([t + 1]))[0]
    return words, memory.ports.encode(words)


def _shares(memory: Memory, rows: np.ndarray, k: BfpTensor, seen: np.ndarray) -> tuple[np.ndarray, BfpTensor]:
    """Words and codes of one query head's scores."""
    steps = memory.ports.steps
    query = memory.ports.encode(steps.words(rows))
    sums = steps.dot(query, k)
    scoring = Scoring(memory.ports.prepared.model.attention_scale)
    words = steps.words(scheme.shares(steps, sums, seen, scoring))
    return words, memory.ports.encode(words)


def _stacked(codes: Any) -> tuple[np.ndarray, ...]:
    """Signs, mantissas and exponents of several tensors."""
    return tuple(np.stack([getattr(each, part) for each in codes]) for part in ("sign", "mantissa", "exponent"))
