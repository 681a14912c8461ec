"""Cost of a run on KLLM's chip, from sizes and the positions of outliers alone.

Paper: [kllm §III-B, §III-C, §III-D, §IV]. Decision: D-kllm-31 (cycles of the lanes).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu.arith.integers import matmul, total
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Call, Cost
from refemu.models.schemes.kllm.machine.block import require
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.units.kllm.kllm_chip import CLUSTERING, ChipSizes, edges, laid_out
from refemu.units.kllm.orizuru import levels

SOFTMAX_PASSES, SOFTMAX_LANES = 3, 8  #: maximum, exponential, division, on eight units [kllm §IV-A]
FP16 = "fp16"  #: mode of the head, which no lane computes


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "norm", "linear", "attention" and "activation".

    Raises Refused as the accelerator does.
    """
    require(prepared)
    ports = Ports(prepared.operands, layer)
    if call.part == "linear":
        names, x = call.inputs
        yield from _linear(ports, names, x)
    elif call.part == "attention":
        q, cache = call.inputs
        yield from _attention(ports, q.reshape(len(q), -1), cache)
    elif call.part == "head":
        (x,) = call.inputs
        outputs = prepared.model.vocab
        words = {"weights": outputs * x.shape[1], "activations": x.size}
        yield "linear", Cost({FP16: x.size * outputs}, words=words)
    elif call.part == "activate":
        (up,) = call.inputs
        u = ports.encode("up", up)
        yield "quantize", quantized(ports, "up", u)
        yield "activation", Cost(conversions=(len(up) << u.bits) + u.outlier.size)
    else:
        yield from _gated(ports, *call.inputs)


def quantized(ports: Ports, tensor: str, a: KMeansTensor) -> Cost:
    """Orizuru's trees over every token, then passes of sixteen inliers through the Clustering Unit."""
    (tokens, size), k = a.shape, ports.outliers(tensor, a.shape[1])
    inliers = size - np.count_nonzero(a.mask, axis=1)
    comparisons, cycles = search(size, k, ChipSizes().tree) if k else (0, 0)
    return Cost(
        comparisons=tokens * comparisons,
        conversions=int(total(inliers)),
        cycles=tokens * cycles + int(total(-(-inliers // CLUSTERING))),
    )


def search(n: int, k: int, inputs: int) -> tuple[int, int]:
    """Comparisons and cycles of Orizuru for a token of n values, by passes of `inputs` (D-kllm-60)."""
    comparisons = cycles = 0
    apart = False
    while n > inputs:
        sizes = [min(inputs, n - first) for first in range(0, n, inputs)]
        n = 0
        for size in sizes:
            used, taken = one_pass(size, min(k, size), apart)
            comparisons, cycles, n = comparisons + used, cycles + taken, n + min(k + 1, size)
        apart = True
    last = one_pass(n, min(k, n), apart)
    return comparisons + last[0], cycles + last[1]


def one_pass(n: int, k: int, apart: bool) -> tuple[int, int]:
    """Comparisons and cycles of one pass [kllm §IV-C]. apart: each tree has its own leaves."""
    height = levels(n)
    setup = ((1 << height) - 1) + ((1 << height) - 1 if apart else (1 << height) // 2 - 1)
    return setup + 2 * k * height, height + k * (1 + height)


def _linear(ports: Ports, names: Sequence[str], x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """The activation, its norm, and a product with every weight, token by token."""
    group = ports.operands.group(ports.layer, names)
    a = ports.encode(group.tensor, x)
    yield "quantize", quantized(ports, group.tensor, a)
    (tokens, k), outliers = a.shape, np.count_nonzero(a.mask, axis=1)
    layer = int(group.norm == "layer")
    if group.norm:
        macs = (1 + layer) * ((tokens << a.bits) + int(total(outliers)))
        yield "norm", Cost({"norm": macs}, index_operations=a.mask.size - int(total(outliers)))
    for weight in group.weights:
        n = weight.tensor.shape[0]
        left_out = [np.full(n, count) for count in outliers.tolist()]
        words = {"weights": tokens * n * k, "activations": tokens * k}
        extra = layer + (weight.bias is not None)
        yield "linear", _product(left_out, [(k, n)] * tokens, 1 << a.bits + weight.tensor.bits, words, extra)


def _product(
    left_out: list[np.ndarray], limits: list[tuple[int, int]], entries: int, words: dict[str, int], extra: int = 0
) -> Cost:
    """left_out: for each row, its positions that the columns do not count. limits: its positions and columns.

    extra: edges for a shift and a bias.
    """
    counts = [columns[:width] for columns, (_, width) in zip(left_out, limits, strict=True)]
    sparse = int(total(np.concatenate(counts)))
    outputs, positions = (int(total(np.array(sizes))) for sizes in zip(*((n, k * n) for k, n in limits), strict=True))
    chip = ChipSizes()
    cycles = edges(laid_out(limits, lambda row, _: left_out[row], chip), chip, entries, extra)
    return Cost({"reduce": outputs * entries, "sparse": sparse}, positions - sparse, words=words, cycles=cycles)


def _attention(ports: Ports, x: np.ndarray, cache: Any) -> Iterator[tuple[str, Cost]]:
    """q, k and v, then both products, softmax and integers of every query head."""
    q, tokens, length = ports.encode("q", x), len(x), len(cache)
    yield "quantize", quantized(ports, "q", q)
    for name, side in (("k", cache.k), ("v", cache.v)):
        yield "quantize", quantized(ports, name, side.tensor(length, first=length - tokens))
    sides = {"k": cache.k.tensor(length), "v": cache.v.tensor(length)}
    sizes = ports.operands.sizes
    group = sizes.heads // sizes.kv_heads
    seen = np.repeat(np.arange(length - tokens + 1, length + 1), group)
    for head in range(sizes.kv_heads):
        columns = slice(head * sizes.head_dim, (head + 1) * sizes.head_dim)
        keys, values = (sides[name].mask[:, columns] for name in "kv")
        mine = slice(head * group * sizes.head_dim, (head + 1) * group * sizes.head_dim)
        queries = q.mask[:, mine].reshape(len(seen), sizes.head_dim)
        yield "attention", _head(queries, keys, values, seen, 1 << q.bits + sides["k"].bits, 1 << sides["v"].bits)


def _head(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, seen: np.ndarray, entries: int, table: int
) -> Cost:
    """The query heads with one KV head.

    queries: mask (rows, dim); keys, values: (keys, dim). entries: of q x k; table: of v.
    """
    dim, pairs = queries.shape[1], int(total(seen))
    each, key = (np.count_nonzero(side, axis=1) for side in (queries, keys))
    both = matmul(queries.astype(np.int64), keys.astype(np.int64).T)
    union = [each[row] + key - both[row] for row in range(len(seen))]
    left_out = [np.count_nonzero(values[:count], axis=0) for count in seen.tolist()]
    logits_words = {"activations": queries.size, "kv": pairs * dim}
    logits = _product(union, [(dim, count) for count in seen.tolist()], entries, logits_words)
    mixed = _product(
        left_out, [(count, dim) for count in seen.tolist()], table, {"activations": pairs, "kv": pairs * dim}
    )
    softmax = int(total(SOFTMAX_PASSES * -(-seen // SOFTMAX_LANES)))
    return logits + mixed + Cost(conversions=pairs, cycles=softmax)


def _gated(ports: Ports, gate: np.ndarray, up: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """Both operands, the tables of the activation, the product of indices."""
    g, u = ports.encode("gate", gate), ports.encode("up", up)
    yield "quantize", quantized(ports, "gate", g)
    yield "quantize", quantized(ports, "up", u)
    sparse = int(np.count_nonzero(g.mask | u.mask))
    evaluations = (len(gate) << g.bits) + g.outlier.size
    yield "activation", Cost({"sparse": sparse}, index_operations=u.mask.size, conversions=evaluations)
