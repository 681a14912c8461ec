"""Products of an activation with a weight on the lanes of KLLM's chip [kllm §III-B, §III-D, §IV-A]."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.machine.report import Cost, Operation, differences
from refemu.models.schemes.kllm.cache import outlier_words
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.units.kllm.kllm_chip import ChipSizes


def weighted(
    ports: Ports,
    name: str,
    a: tuple[KMeansTensor, np.ndarray],
    b: tuple[KMeansTensor, np.ndarray],
    output: np.ndarray,
) -> Operation:
    """A linear layer on the chip, beside the scheme's outputs, float32 (tokens, outputs).

    a: the activation, and the scales of the dense path, which a norm may have divided. b: the weight, and its centroids
    for the sparse path, (tokens, entries).
    """
    (left, scale), (weight, centroids) = a, b
    (tokens, k), n = left.shape, weight.shape[0]
    config = {"k": k, "n": n, "a_bits": left.bits, "b_bits": weight.bits, "preset": ports.operands.config.preset}
    table = cartesian(left.codebook, weight.codebook).values
    inputs = {
        "a_index": left.index,
        "a_mask": left.mask.astype(np.uint8),
        "a_outlier": outlier_words(left),
        "a_scale": scale,
        "a_codebook": np.broadcast_to(left.codebook.values, (tokens, 1 << left.bits)),
        "b_index": np.broadcast_to(weight.index.reshape(-1), (tokens, n * k)),
        "b_scale": np.broadcast_to(weight.scale, (tokens, n)),
        "b_codebook": centroids,
        "products": np.broadcast_to(table, (tokens, table.size)),
    }
    answer = ports.evaluate("kllm_chip", config, inputs)
    due = fp16.bits(fp16.to_f16(output))
    moved = {"weights": tokens * n * k, "activations": tokens * k}
    return Operation(
        ports.full(name),
        "kllm_chip",
        config,
        (tokens, n, k),
        due.size,
        differences(answer.y.reshape(due.shape), due),
        answer.cycles,
        _use(answer, ChipSizes()),
        {**moved, "outputs": due.size},
        "linear",
        counted(answer, moved, answer.cycles),
    )


def counted(answer: Any, words: dict[str, int], cycles: int) -> Cost:
    """Cost of a product by the counters of its unit."""
    macs = {"reduce": answer.macs_reduce, "sparse": answer.macs_sparse}
    return Cost(macs, answer.indices, words=words, cycles=cycles)


def _use(answer: Any, chip: ChipSizes) -> dict[str, float]:
    """Shares of the counters' and of the MACs' cycles in which they did something."""
    lanes = answer.cycles * chip.lanes
    return {
        "counters": answer.indices / (lanes * chip.counters * chip.counter_inputs),
        "macs": (answer.macs_reduce + answer.macs_sparse) / (lanes * chip.macs),
    }
