"""Attention on KLLM's chip: K-Means x K-Means, softmax, quantized scores, integer x K-Means [kllm §III-A, §IV-A].

A row is a query head of a token; the query heads that read one KV head stand below each other. A row sees the keys up
to its own token; units whose lanes are the keys are configured for every number of keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost, Operation, differences
from refemu.models.schemes.kllm.attention import kv_head
from refemu.models.schemes.kllm.cache import IndexCache, cut, outlier_words
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.products import counted
from refemu.units.kllm.index_matmul import Scores
from refemu.units.kllm.kllm_chip import ChipSizes


@dataclass(frozen=True, eq=False)
class Head:
    """Operands of the query heads that read one KV head, and what the scheme makes of them."""

    number: int
    queries: KMeansTensor  #: (rows, dim)
    keys: KMeansTensor  #: (keys, dim)
    values: KMeansTensor
    v_scale: np.ndarray  #: float16 (keys,)
    seen: np.ndarray  #: (rows,) keys that each row sees
    logits: np.ndarray  #: float16 (rows, keys)
    scores: Scores
    context: np.ndarray  #: float16 (rows, dim)

    def rows(self) -> Iterator[tuple[int, np.ndarray]]:
        """Every number of keys, with the rows that see as many."""
        for count in np.unique(self.seen).tolist():
            yield count, np.flatnonzero(self.seen == count)


def attention(ports: Ports, q: KMeansTensor, cache: IndexCache, output: np.ndarray) -> Iterator[Operation]:
    """The four operations of every KV head. output: the scheme's, float32 (tokens, heads * dim)."""
    sizes, tokens = ports.operands.sizes, q.shape[0]
    group = sizes.heads // sizes.kv_heads
    by_head = output.reshape(tokens, sizes.kv_heads, group * sizes.head_dim)
    for number in range(sizes.kv_heads):
        head = _head(ports, q, cache, number)
        yield _logits(ports, head)
        yield _softmax(ports, head)
        yield _quantized(ports, head)
        yield _mixed(ports, head, by_head[:, number].reshape(head.context.shape))


def _head(ports: Ports, q: KMeansTensor, cache: IndexCache, number: int) -> Head:
    sizes, tokens, length = ports.operands.sizes, q.shape[0], len(cache)
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    columns = slice(number * dim, (number + 1) * dim)
    queries = cut(q, slice(number * group * dim, (number + 1) * group * dim), group)
    keys, values = (side.tensor(length, columns) for side in (cache.k, cache.v))
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    logits, scores, context = kv_head(ports.operands, q, cache, number)
    return Head(number, queries, keys, values, cache.v.scale(length), seen, logits, scores, context)


def _operation(
    ports: Ports, head: Head, name: str, unit: str, config: dict[str, Any], shape: tuple[int, ...], **more: Any
) -> Operation:
    return Operation(f"{ports.full(name)}.{head.number}", unit, config, shape, **more)


def _logits(ports: Ports, head: Head) -> Operation:
    """A product for every row and key that it sees; outliers of both sides are left out of the counts."""
    q, k = head.queries, head.keys
    row = np.repeat(np.arange(len(head.seen)), head.seen)
    key = np.concatenate([np.arange(count) for count in head.seen.tolist()])
    table = cartesian(q.codebook, k.codebook).values
    config = {"k": q.length, "a_bits": q.bits, "b_bits": k.bits, "integer": False, "preset": _preset(ports)}
    inputs = _side("a", q, row) | _side("b", k, key) | {"products": np.broadcast_to(table, (row.size, table.size))}
    answer = ports.evaluate("index_matmul", config, inputs)
    due = fp16.bits(head.logits)[row, key]
    left_out = np.count_nonzero(inputs["a_mask"] | inputs["b_mask"], axis=1)
    cycles = lane_cycles([left_out[row == at] for at in range(len(head.seen))], [q.length] * len(head.seen), table.size)
    return _operation(
        ports,
        head,
        "logits",
        "index_matmul",
        config,
        (len(head.seen), len(key), q.length),
        elements=due.size,
        differing=differences(answer.y, due),
        cycles=cycles,
        words={"queries": q.index.size, "keys": row.size * q.length, "logits": due.size},
        kind="attention",
        cost=counted(answer, {"activations": q.index.size, "kv": row.size * q.length}, cycles),
    )


def lane_cycles(left_out: Sequence[np.ndarray], lengths: Sequence[int], entries: int) -> int:
    """Cycles of the chip for a product row by row (D-kllm-31).

    left_out: of each row, the positions that its columns leave out of the counts. lengths: of the columns of each row.
    """
    chip, cycles = ChipSizes(), 0
    for columns, length in zip(left_out, lengths, strict=True):
        cycles += chip.cycles(length, len(columns), entries, int(columns.max(initial=0)))
    return cycles


def _preset(ports: Ports) -> Any:
    return ports.operands.config.preset


def _side(side: str, tensor: KMeansTensor, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Some vectors of a tensor, by the ports of an operand."""
    return {
        f"{side}_index": tensor.index[vectors],
        f"{side}_mask": tensor.mask[vectors].astype(np.uint8),
        f"{side}_outlier": outlier_words(tensor)[vectors],
        f"{side}_scale": tensor.scale[vectors],
        f"{side}_codebook": np.broadcast_to(tensor.codebook.values, (vectors.size, 1 << tensor.bits)),
    }


def _softmax(ports: Ports, head: Head) -> Operation:
    differing = elements = cycles = 0
    config = {"op": "softmax", "softmax": ports.operands.arith.softmax}
    for count, rows in head.rows():
        inputs = {"x": fp16.bits(head.logits)[rows, :count]}
        answer = ports.evaluate("functional", {**config, "t": count}, inputs)
        due = head.scores.p[rows, :count].view(np.uint16)
        differing += differences(answer.y.reshape(due.shape), due)
        elements, cycles = elements + due.size, cycles + answer.cycles
    more = {"elements": elements, "differing": differing, "cycles": cycles, "words": {"logits": elements}}
    more |= {"kind": "attention", "cost": Cost(cycles=cycles)}
    widest = {**config, "t": int(head.seen.max())}
    return _operation(ports, head, "softmax", "functional", widest, head.logits.shape, **more)


def _quantized(ports: Ports, head: Head) -> Operation:
    """The integers of the scores, V's scales folded in (D-kllm-14), and the scale of every row."""
    differing = elements = 0
    config = {"bits": ports.operands.config.integer_bits, "mode": "fold", "preset": _preset(ports)}
    for count, rows in head.rows():
        scale = np.broadcast_to(head.v_scale[:count].view(np.uint16), (rows.size, count))
        inputs = {"p": head.scores.p[rows, :count].view(np.uint16), "v_scale": scale}
        answer = ports.evaluate("score_quantizer", {**config, "t": count}, inputs)
        due = head.scores.q[rows, :count]
        differing += differences(answer.q.reshape(due.shape).astype(due.dtype), due)
        differing += differences(answer.scale, head.scores.scale[rows].view(np.uint16))
        elements += due.size + rows.size
    more = {"elements": elements, "differing": differing, "cycles": 0, "words": {"scores": elements}}
    more |= {"kind": "attention", "cost": Cost(conversions=elements - len(head.seen))}
    widest = {**config, "t": int(head.seen.max())}
    return _operation(ports, head, "scores", "score_quantizer", widest, head.logits.shape, **more)


def _mixed(ports: Ports, head: Head, output: np.ndarray) -> Operation:
    """Integer x K-Means over the keys that a row sees. output: the scheme's, fp16 values (rows, dim)."""
    differing = moved = cycles = 0
    cost = Cost()
    v, dim = head.values, head.values.shape[1]
    config = {"a_bits": ports.operands.config.integer_bits, "b_bits": v.bits, "integer": True, "preset": _preset(ports)}
    due = fp16.bits(fp16.to_f16(output))
    for count, rows in head.rows():
        row, column = (grid.reshape(-1) for grid in np.meshgrid(rows, np.arange(dim), indexing="ij"))
        inputs = {
            "a_index": head.scores.q[row, :count],
            "a_outlier": head.scores.p[row, :count].view(np.uint16),
            "a_scale": head.scores.scale[row].view(np.uint16),
            "b_index": v.index[:count, column].T,
            "b_mask": v.mask[:count, column].T.astype(np.uint8),
            "b_outlier": outlier_words(v)[:count, column].T,
            "b_codebook": np.broadcast_to(v.codebook.values, (row.size, 1 << v.bits)),
        }
        answer = ports.evaluate("index_matmul", {**config, "k": count}, inputs)
        differing += differences(answer.y, due[row, column])
        left_out = np.count_nonzero(v.mask[:count], axis=0)
        spent = lane_cycles([left_out] * rows.size, [count] * rows.size, 1 << v.bits)
        cost += counted(answer, {"activations": rows.size * count, "kv": row.size * count}, spent)
        moved, cycles = moved + row.size * count, cycles + spent
    words = {"values": moved, "context": due.size}
    more = {"elements": due.size, "differing": differing, "cycles": cycles, "words": words}
    more |= {"kind": "attention", "cost": cost}
    widest = {**config, "k": int(head.seen.max())}
    shape = (len(head.seen), dim, int(head.seen.max()))
    return _operation(ports, head, "context", "index_matmul", widest, shape, **more)
