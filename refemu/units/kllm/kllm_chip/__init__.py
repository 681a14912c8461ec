"""KLLM's chip: lanes over output columns, Orizuru, Clustering Unit, Functional Unit, buffers."""

from refemu.units.kllm.kllm_chip.kllm_chip import UNIT, KllmChip, State, run
from refemu.units.kllm.kllm_chip.lanes import LaneArray
from refemu.units.kllm.kllm_chip.plan import Operands, Pass, laid_out, operands, passes
from refemu.units.kllm.kllm_chip.product import Function, Product, matmul, on_lanes
from refemu.units.kllm.kllm_chip.sizes import CLUSTERING, Carry, ChipSizes

__all__ = [
    "CLUSTERING",
    "UNIT",
    "Carry",
    "ChipSizes",
    "Function",
    "KllmChip",
    "LaneArray",
    "Operands",
    "Pass",
    "Product",
    "State",
    "laid_out",
    "matmul",
    "on_lanes",
    "operands",
    "passes",
    "run",
]
