"""Compiled twin of kllm_chip: every edge of every lane in one kernel. [kllm §IV-A, Fig. 6]"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.formats.kllm.twins.kmeans import dequantized
from refemu.units.kllm.index_matmul import Norm, Scores, require_problem
from refemu.units.kllm.kernels.kllm_chip import product
from refemu.units.kllm.kernels.pe_lane import TOTALS
from refemu.units.kllm.kllm_chip.plan import Operands, operands, passes
from refemu.units.kllm.kllm_chip.product import Product, parts, result
from refemu.units.kllm.kllm_chip.sizes import ChipSizes
from refemu.units.kllm.pe_lane import COUNTERS
from refemu.units.kllm.twins.index_matmul import Prepared
from refemu.units.kllm.twins.pe_lane import options


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    *,
    chip: ChipSizes | None = None,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Product:
    """`kllm_chip.matmul`, compiled; `b` may be prepared."""
    tensor, right = (b.tensor, b.vectors) if isinstance(b, Prepared) else (b, None)
    task = require_problem(a, tensor, preset, products, bias, norm, seen, right, dequantized)
    return on_lanes(operands(task), task.shape, chip or ChipSizes())


def on_lanes(words: Operands, shape: tuple[int, ...], sizes: ChipSizes) -> Product:
    """`product.on_lanes`, compiled."""
    batches, bits = parts(words, sizes)
    lane = sizes.lane(words.a_bits, words.b_bits, words.integer, bits)
    plan = np.array(passes(words, sizes), np.int64).reshape(-1, 9)
    totals, y = np.zeros(TOTALS, np.int64), np.zeros((len(words.a), len(words.b)), np.uint16)
    dimensions = np.array([sizes.lanes, sizes.counters, sizes.macs, lane.entries, sizes.concat], np.int64)
    flags = np.array([words.shifts, words.biases, words.integer], np.int64)
    edges, largest = product(
        options(lane),
        dimensions,
        plan,
        flags,
        words.a,
        words.b,
        words.a_mask,
        words.b_mask,
        words.a_words,
        words.a_coded,
        words.b_words,
        words.centroids,
        words.table,
        words.rows,
        words.columns,
        y,
        totals,
    )
    assert largest >> bits == 0
    counts = dict(zip(COUNTERS, totals.tolist(), strict=True))
    return result(y, shape, {**counts, "cycles": int(edges)}, batches)
