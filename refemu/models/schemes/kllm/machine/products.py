"""Products of a block on the lanes of KLLM's chip, every edge of each [kllm §III-B, §III-D, §IV-A, Fig. 6]."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost, Operation, differences, unchecked
from refemu.models.machine.work import Work
from refemu.models.schemes.kllm.machine import records
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.operands import Group, Weight
from refemu.units.kllm import pe_lane
from refemu.units.kllm.index_matmul import Norm
from refemu.units.kllm.kllm_chip import ChipSizes, Product


def weighted(
    ports: Ports, group: Group, weight: Weight, a: KMeansTensor, norm: Norm | None, output: np.ndarray
) -> Operation:
    """A linear layer on the lanes, compared with the scheme's outputs, float32 (tokens, outputs).

    norm: result of index_norm: divided scales and centroids, and for LayerNorm the shift.
    """
    (tokens, k), n = a.shape, weight.tensor.shape[0]
    answer = ports.multiply(a, weight.tensor, norm=norm, bias=weight.bias)
    moved = {"weights": tokens * n * k, "activations": tokens * k}
    return multiplied(
        ports.full(weight.name),
        answer,
        ports.lane(a.bits, weight.tensor.bits),
        (tokens, n, k),
        differences(answer.y.view(np.uint16), fp16.bits(fp16.to_f16(output))),
        {**moved, "outputs": answer.y.size},
        "linear",
        moved,
        works=(records.weighted(ports, group, weight, a),),
        chip=ports.chip,
    )


def multiplied(
    name: str,
    answer: Product,
    lane: dict[str, Any],
    shape: tuple[int, ...],
    differing: int,
    words: dict[str, int],
    kind: str,
    moved: dict[str, int],
    elements: int | None = None,
    works: tuple[Work, ...] = (),
    chip: ChipSizes | None = None,
) -> Operation:
    """The record of a product. lane: parameters of the lanes. moved: words of the cost table.

    works: records of the heads on the lanes.
    """
    return Operation(
        name,
        "pe_lane",
        lane,
        shape,
        answer.y.size if elements is None else elements,
        differing,
        answer.cycles,
        use(answer, chip or ChipSizes()),
        words,
        kind,
        counted(answer, moved, works),
        unchecked=unchecked("pe_lane", pe_lane.UNIT.configs["column"], "y"),
    )


def counted(answer: Product, words: dict[str, int], works: tuple[Work, ...] = ()) -> Cost:
    """Cost of a product by the counters of the lanes."""
    macs = {"reduce": answer.macs_reduce, "sparse": answer.macs_sparse}
    return Cost(macs, answer.indices, words=words, cycles=answer.cycles, works=works)


def use(answer: Product, chip: ChipSizes) -> dict[str, float]:
    """Shares of the edges of all lanes at which each part worked, by its work and its size."""
    edges = answer.cycles * chip.lanes
    macs = answer.macs_reduce + answer.macs_sparse + answer.mults_scale + answer.adds_merge
    return {
        "concat": answer.concats / (edges * chip.concat),
        "counters": answer.indices / (edges * chip.counters * chip.counter_inputs),
        "merge": answer.merge_cycles / edges,
        "macs": macs / (edges * chip.macs),
    }
