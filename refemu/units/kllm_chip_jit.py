"""Compiled twin of kllm_chip: same arguments, same Result. Read kllm_chip.py first. [kllm §IV-A, Fig. 6]

Outputs by the twin of index_matmul; cycles are closed forms in both.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.units import index_matmul_jit, index_matmul_ports_jit
from refemu.units.index_matmul import COUNTERS
from refemu.units.index_matmul_jit import Prepared
from refemu.units.index_matmul_parts import Norm, Scores
from refemu.units.index_matmul_problem_parts import problem
from refemu.units.kllm_chip import TABLE_1, ChipUnit, Result, on_chip
from refemu.units.kllm_chip_parts import KllmChip
from refemu.units.unit import admit


def run(
    a: KMeansTensor | Scores,
    b: KMeansTensor | Prepared,
    *,
    chip: KllmChip | None = None,
    check_capacity: bool = False,
    preset: str | KllmArith = "paper",
    products: Codebook | None = None,
    bias: Any = None,
    norm: Norm | None = None,
    seen: Any = None,
) -> Result:
    """As `kllm_chip.run`; `b` may be prepared."""
    answer = index_matmul_jit.run(a, b, preset=preset, products=products, bias=bias, norm=norm, seen=seen)
    tensor = b.tensor if isinstance(b, Prepared) else b
    task = problem(a, tensor, preset, products, bias, norm, seen)
    return on_chip(answer, task, chip or KllmChip(), check_capacity)


def run_ports(
    *,
    k: int = 8,
    n: int = 6,
    a_bits: int = 4,
    b_bits: int = 4,
    sizes: tuple[int, ...] = TABLE_1,
    lane_mapping: str = "column",
    preset: str | KllmArith = "paper",
    **inputs: Any,
) -> Result:
    """As `kllm_chip.run_ports`: every row by every column is one column of index_matmul."""
    device = ChipUnit(k, n, a_bits, b_bits, sizes, lane_mapping, preset)
    names = [port.name for port in device.ports.inputs]
    arrays = dict(zip(names, admit(device.name, device.ports.inputs, [inputs[name] for name in names]), strict=True))
    shape = arrays["a_scale"].shape
    rows, lead, tail = prod(shape), () if n == 1 else (1,), () if n == 1 else (n,)
    columns: dict[str, Any] = {
        name: array.reshape(*shape, *lead, *array.shape[len(shape) :])
        for name, array in arrays.items()
        if name not in ("b_index", "b_scale")
    }
    columns["b_index"] = arrays["b_index"].reshape(*shape, *tail, *((k,) if k > 1 else ()))
    columns["b_scale"] = arrays["b_scale"]
    nothing = np.zeros(columns["b_index"].shape, np.uint16)
    answer = index_matmul_ports_jit.run_ports(
        **columns, b_mask=nothing, b_outlier=nothing, k=k, a_bits=a_bits, b_bits=b_bits, preset=preset
    )
    chip, entries = device.chip, 1 << a_bits + b_bits
    tiles, (macs, cycles) = chip.tiles(n), _cycles(chip, k, n, entries, arrays["a_mask"].reshape(rows, k))
    return Result(
        answer.y,
        answer.overflow,
        **{name: getattr(answer, name) for name in COUNTERS},
        tiles=rows * tiles,
        count_cycles=rows * tiles * chip.count_cycles(k),
        mac_cycles=macs * tiles,
        cycles=cycles,
    )


def _cycles(chip: KllmChip, k: int, n: int, entries: int, masks: np.ndarray) -> tuple[int, int]:
    """Cycles of the MACs for a tile of every row, and all cycles: rows with as many outliers take equally long."""
    left_out, rows = np.unique(np.count_nonzero(masks, axis=1), return_counts=True)
    macs = cycles = 0
    for outliers, count in zip(left_out.tolist(), rows.tolist(), strict=True):
        macs += count * chip.mac_cycles(entries, outliers)
        cycles += count * chip.cycles(k, n, entries, outliers)
    return macs, cycles
