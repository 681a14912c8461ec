"""Attention on KLLM's chip: K-Means x K-Means, softmax, quantized scores, integer x K-Means [kllm §III-A, §IV-A].

A row is a query head of a token; the query heads of one KV head are consecutive. A row sees the keys up to its own
token. The chip's Functional Unit reads the logits that the lanes wrote (D-kllm-62).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.integers import total
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost, Operation, differences, unchecked
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.attention import Head, kv_head
from refemu.models.schemes.kllm.cache import IndexCache
from refemu.models.schemes.kllm.machine import records
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.products import multiplied
from refemu.units.kllm.kllm_chip import Product

Works = tuple[Work, ...]  #: records of the heads that are on the lanes with this one


def attention(ports: Ports, q: KMeansTensor, cache: IndexCache, output: np.ndarray) -> Iterator[Operation]:
    """The four operations of every KV head. output: the scheme's, float32 (tokens, heads * dim)."""
    sizes, tokens = ports.operands.sizes, q.shape[0]
    group = sizes.heads // sizes.kv_heads
    groups = records.attention(ports, (q.bits, cache.k.tensor(len(cache)).bits), records.masks(ports, q, cache))
    by_head = output.reshape(tokens, sizes.kv_heads, group * sizes.head_dim)
    for number in range(sizes.kv_heads):
        head = kv_head(ports.operands, q, cache, number)
        answer = ports.multiply(head.queries, head.keys, seen=head.seen, function="softmax")
        works = [(work,) for work in groups[number]] if number in groups else [()] * 4
        yield _logits(ports, head, answer, works[0])
        yield _softmax(ports, head, answer, works[1])
        yield _quantized(ports, head, works[2])
        yield _mixed(ports, head, by_head[:, number].reshape(head.context.shape), works[3])


def _operation(
    ports: Ports, head: Head, name: str, unit: str, config: dict[str, Any], shape: tuple[int, ...], **more: Any
) -> Operation:
    return Operation(f"{ports.full(name)}.{head.number}", unit, config, shape, **more)


def _logits(ports: Ports, head: Head, answer: Product, works: Works) -> Operation:
    """A product for every row and visible key; outliers of both sides are not counted."""
    q, k, sees = head.queries, head.keys, head.sees
    pairs = int(np.count_nonzero(sees))
    return multiplied(
        f"{ports.full('logits')}.{head.number}",
        answer,
        ports.lane(q.bits, k.bits),
        (len(head.seen), k.shape[0], q.length),
        differences(answer.y.view(np.uint16)[sees], fp16.bits(head.logits)[sees]),
        {"queries": q.index.size, "keys": pairs * q.length, "logits": pairs},
        "attention",
        {"activations": q.index.size, "kv": pairs * q.length},
        pairs,
        works,
        ports.chip,
    )


def _softmax(ports: Ports, head: Head, answer: Product, works: Works) -> Operation:
    """Softmax of every row over the visible keys, after the last edge of the logits."""
    assert answer.z is not None
    due = head.scores.p[head.sees]
    differing, cycles = differences(answer.z[head.sees], due), answer.function_cycles
    more = {"elements": due.size, "differing": differing, "cycles": cycles, "words": {"logits": due.size}}
    widest = {"op": "softmax", "softmax": ports.operands.arith.softmax, "t": int(head.seen.max())}
    more |= {
        "kind": "attention",
        "cost": Cost(cycles=cycles, works=works),
        "unchecked": unchecked("functional", widest, "y"),
    }
    return _operation(ports, head, "softmax", "functional", widest, head.logits.shape, **more)


def _quantized(ports: Ports, head: Head, works: Works) -> Operation:
    """The integers of the scores, V's scales folded in (D-kllm-14), and the scale of every row."""
    differing = elements = 0
    config = {"bits": ports.operands.config.integer_bits, "mode": "fold", "preset": ports.operands.config.preset}
    for count in np.unique(head.seen).tolist():
        rows = np.flatnonzero(head.seen == count)
        scale = np.broadcast_to(head.values.scale[:count], (rows.size, count))
        inputs = {"p": head.scores.p[rows, :count].view(np.uint16), "v_scale": scale}
        answer = ports.evaluate("score_quantizer", {**config, "t": count}, inputs)
        due = head.scores.q[rows, :count]
        differing += differences(answer.q.reshape(due.shape).astype(due.dtype), due)
        differing += differences(answer.scale, head.scores.scale[rows].view(np.uint16))
        elements += due.size + rows.size
    more = {"elements": elements, "differing": differing, "cycles": 0, "words": {"scores": elements}}
    widest = {**config, "t": int(head.seen.max())}
    more |= {"kind": "attention", "cost": Cost(conversions=elements - len(head.seen), works=works)}
    more |= {"unchecked": unchecked("score_quantizer", widest, "q", "scale")}
    return _operation(ports, head, "scores", "score_quantizer", widest, head.logits.shape, **more)


def _mixed(ports: Ports, head: Head, output: np.ndarray, works: Works) -> Operation:
    """Integer x K-Means over the visible keys. output: the scheme's, fp16 values (rows, dim)."""
    v, moved = head.values, int(total(head.seen))
    dim = v.shape[1]
    answer = ports.multiply(head.scores, v, seen=head.seen)
    return multiplied(
        f"{ports.full('context')}.{head.number}",
        answer,
        ports.lane(8, v.bits, integer=True),
        (len(head.seen), dim, v.shape[0]),
        differences(answer.y.view(np.uint16), fp16.bits(fp16.to_f16(output))),
        {"values": moved * dim, "context": answer.y.size},
        "attention",
        {"activations": moved, "kv": moved * dim},
        works=works,
        chip=ports.chip,
    )
