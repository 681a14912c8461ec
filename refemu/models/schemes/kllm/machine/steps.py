"""The operations of KLLM's chip besides products of matrices: quantization, norm, activation, product of indices.

Paper: [kllm §III-A, §III-B1, §III-C, §IV-C].
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost, Operation, differences, unchecked
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm import vectors
from refemu.models.schemes.kllm.machine import records
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.operands import Group, Weight
from refemu.units.kllm.index_matmul import Norm


def encoded(ports: Ports, tensor: str, x: np.ndarray, a: KMeansTensor) -> Iterator[Operation]:
    """Outliers and scale of every token by Orizuru, then the indices of its inliers by the Clustering Unit.

    x: float32 (tokens, size). a: the scheme's result.
    """
    words, k = fp16.bits(fp16.to_f16(x)), ports.outliers(tensor, x.shape[1])
    search, index = records.encoded(ports, tensor, a)
    if k:
        yield _sorted(ports, tensor, words, a, k, search)
    else:
        ports.static.append(tensor)
    yield _clustered(ports, tensor, words, a, (index,) if k else (search, index))


def _sorted(ports: Ports, tensor: str, words: np.ndarray, a: KMeansTensor, k: int, search: Work) -> Operation:
    """Orizuru's masks and roots; the scale is the larger magnitude of the roots, 1 if both are 0."""
    config = {"n": words.shape[1], "k": k, "inputs": ports.chip.tree, "min_leaf": "not_max", "total_order": False}
    answer = ports.evaluate("orizuru_passes", config, {"x": words})
    roots = np.maximum(answer.root_max & np.uint16(0x7FFF), answer.root_min & np.uint16(0x7FFF))
    scale = np.where(roots == 0, np.uint16(0x3C00), roots)
    differing = differences(answer.outlier_mask.astype(np.bool_), a.mask) + differences(scale, a.scale)
    for root, sign in ((answer.root_max, 1), (answer.root_min, -1)):  # of the rest in the trees
        left = np.where(a.mask, -np.inf, sign * words.view(np.float16)).max(axis=1)
        differing += int(np.count_nonzero(sign * root.view(np.float16) != left))  # zeros of either sign are equal
    return Operation(
        f"{ports.full(tensor)}.outliers",
        "orizuru_passes",
        config,
        words.shape,
        a.mask.size + 3 * a.scale.size,
        differing,
        answer.cycles,
        words={"values": words.size, "outliers": a.outlier.size},
        kind="quantize",
        cost=Cost(comparisons=answer.comparisons, cycles=answer.cycles, works=(search,)),
        unchecked=unchecked("orizuru_passes", config, "outlier_mask", "root_max", "root_min"),
    )


def _clustered(ports: Ports, tensor: str, words: np.ndarray, a: KMeansTensor, works: tuple[Work, ...]) -> Operation:
    """The indices, token by token: the last pass of a token may be partial."""
    config = {"bits": a.bits, "preset": ports.operands.config.preset}
    differing = cycles = 0
    for token, inliers in enumerate(~a.mask):
        answer = ports.evaluate("clustering", config, vectors.inliers(words[token], a, token))
        differing += differences(answer.index.astype(a.index.dtype), a.index[token, inliers])
        cycles += answer.cycles
    size = a.mask.size - a.outlier.size
    moved = {"values": size, "indices": size}
    return Operation(
        f"{ports.full(tensor)}.index",
        "clustering",
        config,
        a.shape,
        size,
        differing,
        cycles,
        words=moved,
        kind="quantize",
        cost=Cost(conversions=size, cycles=cycles, works=works),
        unchecked=unchecked("clustering", config, "index"),
    )


def normed(ports: Ports, group: Group, weight: Weight, a: KMeansTensor, due: Norm) -> tuple[Operation, Norm]:
    """The delayed norm, with the values divided for the product with `weight`; only the first computes statistics.

    due: the scheme's result.
    """
    sizes, tokens, layer = ports.operands.sizes, a.shape[0], group.norm == "layer"
    config = {
        "n": a.length,
        "bits": a.bits,
        "weight_bits": weight.tensor.bits,
        "norm": sizes.norm,
        "eps": float(sizes.rms_eps),
        "preset": ports.operands.config.preset,
    }
    inputs = vectors.normed(a, weight.tensor)
    if not layer:
        del inputs["centroids"]
    answer = ports.evaluate("index_norm", config, inputs)
    wires = {"divisor": answer.rms.view(np.float32), "folded": answer.folded.view(np.float16)}
    wires["divided"] = answer.divided.view(np.float16).reshape(tokens, -1)
    if layer:
        wires |= {"mean": answer.mean.view(np.float32), "shift": answer.shift.view(np.float16)}
    operation = Operation(
        f"{group.full}.norm.{weight.name}",
        "index_norm",
        config,
        a.shape,
        len(np.concatenate([np.ravel(wire) for wire in wires.values()])),
        sum(_unlike(wire, getattr(due, part)) for part, wire in wires.items()),
        0,
        words={"indices": a.index.size, "divided": answer.divided.size + answer.folded.size},
        kind="norm",
        cost=Cost(
            {"norm": answer.macs},
            index_operations=answer.indices,
            works=(records.normed(ports, group, a, answer.macs),),
        )
        if weight is group.weights[0]
        else Cost(),
        unchecked=unchecked("index_norm", config, "rms", "mean", "folded", "divided", "shift"),
    )
    return operation, Norm(**wires, row_sum=due.row_sum)


def _unlike(wire: np.ndarray, due: np.ndarray) -> int:
    """Number of elements in which a wire of the norm differs from the scheme's."""
    return differences(wire, np.asarray(due, wire.dtype).reshape(wire.shape))


def gated(ports: Ports, gate: np.ndarray, up: np.ndarray, output: np.ndarray) -> Iterator[Operation]:
    """Both operands, the activation's table of every token, and the product of indices, read as FP16 (D-kllm-16)."""
    g, u = ports.encode("gate", gate), ports.encode("up", up)
    yield from encoded(ports, "gate", gate, g)
    yield from encoded(ports, "up", up, u)
    table, product = records.functions(ports, gated=True)
    operation, function = _function(ports, g, table)
    yield operation
    yield _product(ports, function, u, output, product)


def plain(ports: Ports, up: np.ndarray, output: np.ndarray) -> Iterator[Operation]:
    """The activation of up by its table; the next layer quantizes its values."""
    u = ports.encode("up", up)
    yield from encoded(ports, "up", up, u)
    operation, function = _function(ports, u, *records.functions(ports, gated=False))
    differing = differences(fp16.bits(function.dequantize_fp16()), fp16.bits(fp16.to_f16(output)))
    yield replace(operation, differing=operation.differing + differing, elements=operation.elements + output.size)


def _function(ports: Ports, g: KMeansTensor, record: Work) -> tuple[Operation, KMeansTensor]:
    """A table for every token; outliers go through the same table of fp16 words, one lane each."""
    config = {"function": ports.operands.sizes.activation, "bits": g.bits, "mode": "token"}
    counts = np.count_nonzero(g.mask, axis=1)
    entries, values, start, evaluations = [], [], 0, 0
    for token, count in enumerate(counts.tolist()):
        inputs = {"codebook": g.codebook.values[None], "scale": g.scale[token : token + 1]}
        if count:
            inputs["outlier"] = g.outlier[None, start : start + count]
        answer = ports.evaluate("index_function", {**config, "outliers": count}, inputs)
        entries.append(answer.entries.reshape(1, -1))
        values.append(answer.value.reshape(-1) if count else g.outlier[:0])
        start, evaluations = start + count, evaluations + answer.evaluations
    table, apart = np.concatenate(entries), np.concatenate(values)
    ones = np.full(g.scale.shape, 0x3C00, np.uint16)
    function = KMeansTensor(Codebook(g.bits, table), g.index, ones, g.mask, apart)
    due = ports.operands.units.function(g, ports.operands.sizes.activation, "token", None)
    differing = differences(table, np.broadcast_to(due.codebook.values, table.shape)) + differences(apart, due.outlier)
    widest = {**config, "outliers": int(counts.max(initial=0))}
    operation = Operation(
        ports.full(f"{ports.operands.function}.function"),
        "index_function",
        widest,
        g.shape,
        table.size + apart.size,
        differing,
        0,
        words={"entries": table.size, "outliers": apart.size},
        kind="activation",
        cost=Cost(conversions=evaluations, works=(record,)),
        unchecked=unchecked("index_function", widest, "entries", "value"),
    )
    return operation, function


def _product(ports: Ports, function: KMeansTensor, u: KMeansTensor, output: np.ndarray, record: Work) -> Operation:
    """The product of indices; its values are those of the joint codebook times up's scale, rounded once."""
    config = {"a_bits": function.bits, "b_bits": u.bits}
    inputs = vectors.factor("a", function, slice(None)) | vectors.factor("b", u, slice(None))
    answer = ports.evaluate("index_product", config, {name: array.reshape(-1) for name, array in inputs.items()})
    q, mask, apart = (getattr(answer, name).reshape(u.shape) for name in ("q", "mask", "outlier"))
    table = cartesian(function.codebook, u.codebook).centroids.astype(np.float64)
    picked = np.take_along_axis(table.reshape(-1, table.shape[-1]), q.astype(np.intp), axis=1)
    inside = fp16.round16_of_f64(picked * u.scales.astype(np.float64)[:, None])
    values = np.where(mask.astype(np.bool_), fp16.values(apart), fp16.to_f16(inside)).view(np.uint16)
    return Operation(
        ports.full("down_in.product"),
        "index_product",
        config,
        u.shape,
        u.index.size,
        differences(values, fp16.bits(fp16.to_f16(output))),
        0,
        words={"indices": 2 * u.index.size, "products": u.index.size},
        kind="activation",
        cost=Cost({"sparse": answer.products_sparse}, index_operations=answer.concats, works=(record,)),
        unchecked=unchecked("index_product", config, "q", "mask", "outlier"),
    )
