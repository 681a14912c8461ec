"""KLLM's chip: lanes over output columns, Orizuru, Clustering Unit, Functional Unit, buffers."""

from refemu.units.kllm.kllm_chip.filled import Fill, LaneTimes, Order, Plan, Rows, at_once, edges, fed, tiled
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
    "Fill",
    "Function",
    "KllmChip",
    "LaneArray",
    "LaneTimes",
    "Operands",
    "Order",
    "Pass",
    "Plan",
    "Product",
    "Rows",
    "State",
    "at_once",
    "edges",
    "fed",
    "laid_out",
    "matmul",
    "on_lanes",
    "operands",
    "passes",
    "run",
    "tiled",
]
