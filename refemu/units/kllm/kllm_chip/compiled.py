"""Compiled form of kllm_chip: every edge of every lane in one kernel. [kllm §IV-A, Fig. 6]"""

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import require_choice
from refemu.arith.fp16_compiled import plain
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans import dequantized
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.kllm.clustering import UNIT as CLUSTERER
from refemu.units.kllm.functional import compiled as functional_compiled
from refemu.units.kllm.index_matmul import Norm, Scores, require_problem
from refemu.units.kllm.index_matmul.compiled import Prepared
from refemu.units.kllm.kernels.kllm_chip import product
from refemu.units.kllm.kernels.pe_lane import TOTALS
from refemu.units.kllm.kllm_chip.kllm_chip import ONE, UNIT, KllmChip
from refemu.units.kllm.kllm_chip.plan import Operands, operands, passes
from refemu.units.kllm.kllm_chip.product import APPLIED, Function, Product, applied, parts, result
from refemu.units.kllm.kllm_chip.sizes import CLUSTERING, ChipSizes
from refemu.units.kllm.orizuru_passes import compiled as orizuru_passes_compiled
from refemu.units.kllm.pe_lane import UNIT as LANE
from refemu.units.kllm.pe_lane.compiled import options


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
    function: Function = "none",
) -> Product:
    """`kllm_chip.matmul`, compiled; `b` may be prepared."""
    require_choice(function, get_args(Function), "kllm_chip", "function")
    tensor, right = (b.tensor, b.vectors) if isinstance(b, Prepared) else (b, None)
    task = require_problem(a, tensor, preset, products, bias, norm, seen, right, dequantized)
    words = operands(task)
    done = on_lanes(words, task.shape, chip or ChipSizes())
    return applied(done, words, function, task.arith.softmax, functional_compiled.apply)


def on_lanes(words: Operands, shape: tuple[int, ...], sizes: ChipSizes) -> Product:
    """`product.on_lanes`, compiled."""
    batches, bits = parts(words, sizes)
    lane = sizes.lane(words.a_bits, words.b_bits, words.integer, bits)
    plan = np.array(passes(words, sizes), np.int64).reshape(-1, 9)
    totals, y = np.zeros(TOTALS, np.int64), np.zeros((len(words.a), len(words.b)), np.uint16)
    dimensions = np.array([sizes.lanes, sizes.counters, sizes.macs, lane.entries, sizes.concat], np.int64)
    flags = np.array([words.shifts, words.biases, words.integer], np.int64)
    sides = words.a, words.b, words.a_mask, words.b_mask, words.a_words, words.a_coded, words.b_words, words.centroids
    tables = map(plain, (words.table, words.rows, words.columns))
    edges, largest = product(options(lane), dimensions, plan, flags, tuple(map(plain, sides)), *tables, y, totals)
    assert largest >> bits == 0
    counts = dict(zip(LANE.counters, totals.tolist(), strict=True))
    return result(y, shape, {**counts, "cycles": int(edges)}, batches)


@compiled_run(UNIT)
def run(device: KllmChip, inputs: Arrays, outputs: Arrays) -> list[int]:
    """Run token after token: Orizuru for all of them, then indices, lanes and function for each."""
    words = {port.name: array for port, array in zip(device.ports.inputs, inputs, strict=True)}
    ports = device.ports.outputs + device.ports.state
    shown = {port.name: array for port, array in zip(ports, outputs, strict=True)}
    outliers = orizuru_passes_compiled.run(words["x"], n=device.k, k=device.pops, inputs=device.tree)
    totals = dict.fromkeys(UNIT.counters, 0)
    totals["comparisons"] = outliers.comparisons
    mask = outliers.outlier_mask.reshape(-1, device.k)
    roots = np.maximum(outliers.root_max & 0x7FFF, outliers.root_min & 0x7FFF)
    scale = np.where(roots == 0, ONE, roots).astype(np.uint16)
    for row in range(len(mask)):
        index = _indices(device, words["x"][row], mask[row], scale[row], words["a_codebook"][row], totals)
        token = {name: tuple(array[row].ravel().tolist()) for name, array in words.items()}
        done = on_lanes(device.operands(token, index, mask[row], int(scale[row])), (device.n,), device.chip)
        search = int(outliers.cycles_taken[row])
        cluster = -(-int(np.count_nonzero(~mask[row])) // CLUSTERING)
        taken = {"search_cycles": search, "cluster_cycles": cluster, "edges": done.cycles}
        values, counts = _function(device, done.y.view(np.uint16))
        taken |= counts
        taken["cycles"] = search + cluster + done.cycles + counts["function_cycles"]
        for name in UNIT.counters:
            totals[name] += taken[name] if name in taken else getattr(done, name, 0)
        values |= {"y": done.y.view(np.uint16), "overflow": done.overflow, "a_index": index, "a_mask": mask[row]}
        values |= {"a_scale": scale[row], "cycles_taken": taken["cycles"]}
        for name, array in shown.items():
            array[row] = np.reshape(values[name], array[row].shape)
    return list(totals.values())


def _function(device: KllmChip, y: np.ndarray) -> tuple[dict[str, Any], dict[str, int]]:
    """Results and registers of the Functional Unit, and its counters."""
    if device.function == "none":
        return {}, dict.fromkeys(APPLIED, 0)
    done = functional_compiled.run(y, op=device.function, t=device.n, softmax=device.softmax)
    values = {"z": done.y, "top": done.top, "terms": done.terms, "total": done.total}
    return values, {name: getattr(done, counter) for name, counter in APPLIED.items()}


def _indices(
    device: KllmChip, x: np.ndarray, mask: np.ndarray, scale: int, book: np.ndarray, totals: dict[str, int]
) -> np.ndarray:
    """Indices of a token, 0 at outliers."""
    index = np.zeros(device.k, np.uint8)
    books = np.broadcast_to(book, (int(np.count_nonzero(~mask)), book.size))
    done = CLUSTERER.run_compiled(x[~mask], scale, books, bits=device.a_bits)
    index[~mask] = done.index
    totals["distances"] += int(done.distances)
    return index
