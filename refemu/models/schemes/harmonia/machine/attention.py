"""The products of the attention at the ports of `harmonia_core`: all KV heads in turn.

Paper: [harmonia §III-A, §IV-A]. Decisions: D-harmonia-16 (scores along the keys), D-harmonia-46 (codes by query),
D-harmonia-47 (context of short heads), D-harmonia-60 (query heads that share a KV head).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.machine.report import Operation
from refemu.models.schemes.harmonia import attention as scheme
from refemu.models.schemes.harmonia.machine import products
from refemu.models.schemes.harmonia.machine.memory import Memory
from refemu.models.schemes.harmonia.machine.ports import Ports
from refemu.models.schemes.harmonia.steps import Scoring
from refemu.units.unit import Config


def attention(memory: Memory, output: np.ndarray) -> Iterator[Operation]:
    """Scores after their softmax, then the context, compared with the scheme's.

    output: context of the scheme (tokens, heads * head_dim).
    """
    ports, (tokens, heads, size), timed = memory.ports, memory.q.shape, memory.heads
    share = timed.share(ports.machine)
    words, codes = zip(*(_due(memory, head) for head in range(heads)), strict=True)
    queries = ports.encode(ports.steps.words(np.ascontiguousarray(memory.q.transpose(1, 0, 2))))
    inputs = dict(zip(("a_sign", "a_mag", "a_exp"), _together(_fields(queries), share), strict=True))
    config = product(ports, True, tokens, share, size, len(memory.cache))
    inputs |= _right(memory, heads, share, True)
    if share > 1:
        inputs["position"] = np.tile(np.repeat(memory.keys - 1, share), (heads // share, 1))
    due, done = _together([np.stack(words)], share)[0], _together(_stacked(codes), share)
    timeline = products.attention(timed, True, ports.machine)[0]
    yield ports.multiply("scores", config, inputs, "attention", due, done, timeline, "keys")[0]
    config = product(ports, False, tokens, share, size, len(memory.cache))
    inputs = dict(zip(("a_sign", "a_mag", "a_exp"), done, strict=True)) | _right(memory, heads, share, False)
    context = ports.steps.words(np.ascontiguousarray(output.reshape(tokens, heads, size).transpose(1, 0, 2)))
    ends = config["kind"] == "context"
    codes_ = _together(_stacked([ports.encode(head) for head in context]), share) if ends else ()
    timeline = products.attention(timed, False, ports.machine)[0]
    yield ports.multiply(
        "context", config, inputs, "attention", _together([context], share)[0], codes_, timeline, "values"
    )[0]


def product(ports: Ports, score: bool, tokens: int, share: int, size: int, length: int) -> Config:
    """Configuration of queries times keys, or of scores times values, for heads of `size` and `length` keys.

    share: query heads of a product, whose rows of a token follow each other (D-harmonia-60).
    """
    rows = tokens * share
    if score:
        places = {"start": length - tokens, "positions": "port" if share > 1 else "start"}
        return ports.core("score", rows, size, length, b_type=ports.kv_type, **places)
    kind = "final" if size % 32 else "context"
    return ports.core(kind, rows, length, size, b_type=ports.kv_type)


def _together(arrays: Sequence[np.ndarray], share: int) -> list[np.ndarray]:
    """Arrays (heads, tokens, ...) as rows of the products that take `share` heads: (products, tokens * share, ...)."""
    return [
        np.ascontiguousarray(each.reshape(-1, share, *each.shape[1:]).swapaxes(1, 2)).reshape(
            len(each) // share, -1, *each.shape[2:]
        )
        for each in arrays
    ]


def _right(memory: Memory, heads: int, share: int, score: bool) -> dict[str, np.ndarray]:
    """Keys, or values by channel, of every product; with both widths also the port that selects the width."""
    held = memory.held
    group = heads // held.heads
    parts = []
    for head in range(0, heads, share):
        k, v = held.head(head // group)
        side, length = (k, k.shape[0]) if score else (v, len(memory.cache))
        arrays = [side.sign[:length], side.mantissa[:length], side.exponent]
        parts.append(arrays if score else [array.T for array in arrays])
    sign, mantissa, exponent = (np.stack(part) for part in zip(*parts, strict=True))
    mixed = memory.ports.kv_type == "mixed"
    wide = {"wide": np.stack([np.repeat(memory.wide(score), share, axis=0)] * (heads // share))} if mixed else {}
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


def _fields(codes: BfpTensor) -> tuple[np.ndarray, ...]:
    """Signs, mantissas and exponents."""
    return codes.sign, codes.mantissa, codes.exponent


def _stacked(codes: Sequence[BfpTensor]) -> tuple[np.ndarray, ...]:
    """Signs, mantissas and exponents of several tensors."""
    return tuple(np.stack(parts) for parts in zip(*(_fields(each) for each in codes), strict=True))
