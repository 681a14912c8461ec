"""Compiled twin of kllm_chip: outputs by the twin of index_matmul, cycles in closed form. [kllm §IV-A, Fig. 6]"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.derived import Arrays, twin
from refemu.units.kllm.index_matmul import COUNTERS, Norm, Scores, require_problem
from refemu.units.kllm.kllm_chip import UNIT, ChipSizes, KllmChip, Result, on_chip
from refemu.units.kllm.twins import index_matmul as index_matmul_jit
from refemu.units.kllm.twins.index_matmul import Prepared


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    *,
    chip: ChipSizes | None = None,
    check_capacity: bool = False,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Result:
    """`kllm_chip.matmul`, compiled; `b` may be prepared."""
    answer = index_matmul_jit.matmul(a, b, preset=preset, products=products, bias=bias, norm=norm, seen=seen)
    tensor = b.tensor if isinstance(b, Prepared) else b
    task = require_problem(a, tensor, preset, products, bias, norm, seen)
    return on_chip(answer, task, chip or ChipSizes(), check_capacity)


@twin(UNIT)
def run(device: KllmChip, inputs: Arrays, outputs: Arrays) -> list[int]:
    """Every row by every column is one column of index_matmul."""
    k, n, chip = device.k, device.n, device.chip
    words = {port.name: array for port, array in zip(device.ports.inputs, inputs, strict=True)}
    rows = len(words["a_scale"])
    columns = {name: array[:, None] for name, array in words.items() if name not in ("b_index", "b_scale")}
    columns["b_index"] = words["b_index"].reshape(rows, n, *((k,) if k > 1 else ()))
    columns["b_scale"] = words["b_scale"].reshape(rows, n)
    nothing = np.zeros(columns["b_index"].shape, np.uint16)
    answer = index_matmul_jit.run(
        **columns,
        b_mask=nothing,
        b_outlier=nothing,
        k=k,
        a_bits=device.a_bits,
        b_bits=device.b_bits,
        preset=device.preset,
    )
    for port, array in zip(device.ports.outputs, outputs, strict=True):
        array[:] = getattr(answer, port.name).reshape(array.shape)
    entries, tiles = 1 << device.matmul.bits, rows * chip.tiles(n)
    macs, cycles = _cycles(chip, k, n, entries, words["a_mask"].reshape(rows, k))
    work = [getattr(answer, name) for name in COUNTERS]
    return [*work, tiles, tiles * chip.count_cycles(k), macs * chip.tiles(n), cycles]


def _cycles(chip: ChipSizes, k: int, n: int, entries: int, masks: np.ndarray) -> tuple[int, int]:
    """Cycles of the MACs for a tile of every row, and all cycles: rows with as many outliers take equally long."""
    left_out, rows = np.unique(np.count_nonzero(masks, axis=1), return_counts=True)
    macs = cycles = 0
    for outliers, count in zip(left_out.tolist(), rows.tolist(), strict=True):
        macs += count * chip.mac_cycles(entries, outliers)
        cycles += count * chip.cycles(k, n, entries, outliers)
    return macs, cycles
