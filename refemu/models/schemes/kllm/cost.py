"""Cost of a run on KLLM's chip, from sizes and the positions of outliers alone.

Paper: [kllm §III-B, §III-C, §III-D, §IV]. Decision: D-kllm-31 (cycles of the lanes).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from refemu.arith.integers import total
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Absent, Call, Cost
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.machine import records, works
from refemu.models.schemes.kllm.machine.block import absent as absent_steps
from refemu.models.schemes.kllm.machine.block import require
from refemu.models.schemes.kllm.machine.filled import edges
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.records import Left, Masks
from refemu.models.schemes.kllm.tensors import activations
from refemu.units.kllm.kllm_chip import CLUSTERING, ChipSizes, laid_out

FP16 = "fp16"  #: mode of the head, whose weights are not indices


def costs(prepared: Any, layer: int, call: Call, machine: KllmMachine | None = None) -> Iterator[tuple[str, Cost]]:
    """Cost of one call of a part, by kind of work: "quantize", "norm", "linear", "attention" and "activation".

    machine: options of the chip, by default those of the paper. Raises Refused as the accelerator does.
    """
    require(prepared.config)
    ports = Ports(prepared.operands, layer, machine)
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
        record = works.head(len(x), x.shape[1], outputs, ports.machine, ())
        yield "linear", Cost({FP16: x.size * outputs}, words=words, works=(record,))
    elif call.part == "activate":
        (up,) = call.inputs
        u = ports.encode("up", up)
        yield "quantize", quantized(ports, "up", u)
        evaluations = (len(up) << u.bits) + u.outlier.size
        yield "activation", Cost(conversions=evaluations, works=records.functions(ports, gated=False))
    else:
        yield from _gated(ports, *call.inputs)


def absent(prepared: Any) -> list[Absent]:
    """What the cost leaves out, and why."""
    tensors = activations(prepared.model)
    return absent_steps([each for each in tensors if prepared.config.static(each, prepared.operands.function)])


def quantized(ports: Ports, tensor: str, a: KMeansTensor) -> Cost:
    """Orizuru's trees over every token, then passes of sixteen inliers through the Clustering Unit."""
    tokens, size = a.shape
    inliers, searched = size - np.count_nonzero(a.mask, axis=1), records.search(ports, tensor, size)
    return Cost(
        comparisons=tokens * searched.comparisons,
        conversions=int(total(inliers)),
        cycles=tokens * searched.cycles + int(total(-(-inliers // CLUSTERING))),
        works=records.encoded(ports, tensor, a),
    )


def _linear(ports: Ports, names: Sequence[str], x: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """The activation, its norm, and a product with every weight, token by token."""
    group = ports.operands.group(ports.layer, names)
    a = ports.encode(group.tensor, x)
    yield "quantize", quantized(ports, group.tensor, a)
    (tokens, k), outliers = a.shape, np.count_nonzero(a.mask, axis=1)
    layer = int(group.norm == "layer")
    if group.norm:
        macs = (1 + layer) * ((tokens << a.bits) + int(total(outliers)))
        counted, record = a.mask.size - int(total(outliers)), records.normed(ports, group, a, macs)
        yield "norm", Cost({"norm": macs}, index_operations=counted, works=(record,))
    for weight in group.weights:
        n, extra = weight.tensor.shape[0], layer + (weight.bias is not None)
        left = Left([(k, n)] * tokens, [np.full(n, count) for count in outliers.tolist()])
        words = {"weights": tokens * n * k, "activations": tokens * k}
        record = records.weighted(ports, group, weight, a)
        yield "linear", _product(left, 1 << a.bits + weight.tensor.bits, words, ports.chip, extra, (record,))


def _product(
    left: Left,
    entries: int,
    words: dict[str, int],
    chip: ChipSizes,
    extra: int = 0,
    works: tuple[Work, ...] = (),
) -> Cost:
    """Counts and edges of a product, row after row. extra: edges for a shift and a bias."""
    counts = [columns[:width] for columns, (_, width) in zip(left.out, left.limits, strict=True)]
    sparse = int(total(np.concatenate(counts)))
    pairs = zip(*((n, k * n) for k, n in left.limits), strict=True)
    outputs, positions = (int(total(np.array(sizes))) for sizes in pairs)
    cycles = edges(laid_out(left.limits, lambda row, _: left.out[row], chip), chip, entries, extra)
    macs = {"reduce": outputs * entries, "sparse": sparse}
    return Cost(macs, positions - sparse, words=words, cycles=cycles, works=works)


def _attention(ports: Ports, x: np.ndarray, cache: Any) -> Iterator[tuple[str, Cost]]:
    """q, k and v, then both products, softmax and integers of every query head."""
    q, tokens, length = ports.encode("q", x), len(x), len(cache)
    yield "quantize", quantized(ports, "q", q)
    for name, side in (("k", cache.k), ("v", cache.v)):
        new = side.tensor(length, first=length - tokens)
        yield "quantize", quantized(ports, name, new)
    bits = q.bits, new.bits
    heads = records.masks(ports, q, cache)
    groups = records.attention(ports, bits, heads)
    for number, head in enumerate(heads):
        yield "attention", _head(head, bits, ports.chip, tuple(groups.get(number, ())))


def _head(head: Masks, bits: tuple[int, int], chip: ChipSizes, heads: tuple[Work, ...]) -> Cost:
    """The query heads with one KV head. heads: records of those on the lanes with it."""
    pairs, dim = int(total(head.seen)), head.queries.shape[1]
    words = {"activations": head.queries.size, "kv": pairs * dim}
    logits = _product(head.logits, 1 << bits[0] + bits[1], words, chip)
    mixed = _product(head.context, 1 << bits[1], {"activations": pairs, "kv": pairs * dim}, chip)
    softmax = works.softmax("", head.seen, ())
    return logits + mixed + Cost(conversions=pairs, cycles=softmax.cycles or 0, works=heads)


def _gated(ports: Ports, gate: np.ndarray, up: np.ndarray) -> Iterator[tuple[str, Cost]]:
    """Both operands, the tables of the activation, the product of indices."""
    g, u = ports.encode("gate", gate), ports.encode("up", up)
    yield "quantize", quantized(ports, "gate", g)
    yield "quantize", quantized(ports, "up", u)
    sparse = int(np.count_nonzero(g.mask | u.mask))
    evaluations, steps = (len(gate) << g.bits) + g.outlier.size, records.functions(ports, gated=True)
    yield (
        "activation",
        Cost({"sparse": sparse}, index_operations=u.mask.size, conversions=evaluations, works=steps),
    )
