"""Cost of a run on KLLM's chip, from sizes and from what is an outlier alone.

Paper: [kllm §III-B, §III-C, §III-D, §IV]. Decision: D-kllm-31 (cycles of the lanes).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu.arith.integers import matmul, total
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost
from refemu.models.machine.runner import Call
from refemu.models.schemes.kllm.machine.attention import lane_cycles
from refemu.models.schemes.kllm.machine.block import require
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.tensors import INPUTS
from refemu.units.kllm.kllm_chip import ChipSizes

FP16 = "fp16"  #: mode of the head, which no lane computes


def costs(prepared: Any, layer: int, call: Call) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work.

    Parameters
    ----------
    prepared : Kllm
        Decoder under a KLLM scheme.
    layer : int
        Block; -1 is the head.
    call : Call
        What the part took.

    Yields
    ------
    kind, cost : str and Cost
        "quantize", "norm", "linear", "attention" and "activation".

    Raises
    ------
    Refused
        As the machine does.
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
    else:
        yield from _gated(ports, *call.inputs)


def quantized(ports: Ports, tensor: str, a: KMeansTensor) -> Cost:
    """Orizuru's trees over every token, then passes of sixteen inliers through the Clustering Unit."""
    (tokens, size), k = a.shape, ports.outliers(tensor, a.shape[1])
    height, chip = max(1, (size - 1).bit_length()), ChipSizes()
    inliers = size - np.count_nonzero(a.mask, axis=1)
    passes = [chip.clustering_cycles(count) for count in inliers.tolist()]
    comparisons = ((1 << height) - 1) + ((1 << height) // 2 - 1) + 2 * k * height if k else 0  # [kllm §IV-C]
    search = chip.quantize_cycles(size, k) - chip.clustering_cycles(size)
    return Cost(
        comparisons=tokens * comparisons,
        conversions=int(total(inliers)),
        cycles=tokens * search + int(total(np.array(passes))),
    )


def _linear(ports: Ports, names: Sequence[str], x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """The activation, its norm, and a product with every weight, token by token."""
    tensor = INPUTS[tuple(names)]
    a = ports.encode(tensor, x)
    yield "quantize", quantized(ports, tensor, a)
    (tokens, k), outliers = a.shape, np.count_nonzero(a.mask, axis=1)
    if ports.operands.delayed(tensor):
        macs = (tokens << a.bits) + int(total(outliers))
        yield "norm", Cost({"norm": macs}, index_operations=a.mask.size - int(total(outliers)))
    for name in names:
        weight = ports.operands.weights[ports.full(f"w{name}")]
        n, entries = weight.shape[0], 1 << a.bits + weight.bits
        left_out = [np.full(n, count) for count in outliers.tolist()]
        words = {"weights": tokens * n * k, "activations": tokens * k}
        yield "linear", _product(left_out, [k] * tokens, entries, words)


def _product(left_out: Sequence[np.ndarray], lengths: Sequence[int], entries: int, words: dict[str, int]) -> Cost:
    """left_out: of each row, the positions that its columns leave out of the counts. lengths: of its columns."""
    outputs = int(total(np.array([len(columns) for columns in left_out])))
    sparse = int(total(np.concatenate(left_out)))
    positions = int(total(np.array([len(columns) * length for columns, length in zip(left_out, lengths, strict=True)])))
    macs = {"reduce": outputs * entries, "sparse": sparse}
    return Cost(macs, positions - sparse, words=words, cycles=lane_cycles(left_out, lengths, entries))


def _attention(ports: Ports, x: np.ndarray, cache: Any) -> Iterator[tuple[str, Cost]]:
    """q, k and v, then both products, softmax and integers of every query head."""
    q, tokens, length = ports.encode("q", x), len(x), len(cache)
    yield "quantize", quantized(ports, "q", q)
    sides = {name: side.tensor(length) for name, side in (("k", cache.k), ("v", cache.v))}
    for name, side in sides.items():
        last = KMeansTensor(side.codebook, side.index[-tokens:], side.scale[-tokens:], *_last(side, tokens))
        yield "quantize", quantized(ports, name, last)
    sizes = ports.operands.sizes
    dim, group = sizes.head_dim, sizes.heads // sizes.kv_heads
    seen = np.arange(length - tokens + 1, length + 1)
    for head in range(sizes.heads):
        columns = slice(head // group * dim, (head // group + 1) * dim)
        keys, values = (sides[name].mask[:, columns] for name in "kv")
        queries = q.mask[:, head * dim : (head + 1) * dim]
        yield "attention", _head(queries, keys, values, seen, 1 << q.bits + sides["k"].bits, 1 << sides["v"].bits)


def _last(side: KMeansTensor, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks and outliers of the last tokens."""
    mask = side.mask[-tokens:]
    return mask, side.outlier[side.outlier.size - int(np.count_nonzero(mask)) :]


def _head(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, seen: np.ndarray, entries: int, table: int
) -> Cost:
    """One query head. queries, keys, values: masks (tokens or keys, dim). entries: of q x k; table: of v."""
    chip, dim, pairs = ChipSizes(), queries.shape[1], int(total(seen))
    each, key = (np.count_nonzero(side, axis=1) for side in (queries, keys))
    both = matmul(queries.astype(np.int64), keys.astype(np.int64).T)
    union = [each[row] + key[:count] - both[row, :count] for row, count in enumerate(seen.tolist())]
    left_out = [np.count_nonzero(values[:count], axis=0) for count in seen.tolist()]
    moved = {"activations": queries.size, "kv": pairs * dim}
    logits = _product(union, [dim] * len(seen), entries, moved)
    mixed = _product(left_out, seen.tolist(), table, {"activations": pairs, "kv": pairs * dim})
    softmax = [chip.softmax_cycles(count) for count in seen.tolist()]
    return logits + mixed + Cost(conversions=pairs, cycles=int(total(np.array(softmax))))


def _gated(ports: Ports, gate: np.ndarray, up: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """Both operands, the function's tables, the product of indices."""
    g, u = ports.encode("gate", gate), ports.encode("up", up)
    yield "quantize", quantized(ports, "gate", g)
    yield "quantize", quantized(ports, "up", u)
    sparse = int(np.count_nonzero(g.mask | u.mask))
    evaluations = (len(gate) << g.bits) + g.outlier.size
    yield "activation", Cost({"sparse": sparse}, index_operations=u.mask.size, conversions=evaluations)
