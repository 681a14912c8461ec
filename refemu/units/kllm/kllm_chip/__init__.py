"""KLLM's chip: lanes of Concat units, index counters and MACs over output columns, with cycles and buffers."""

from refemu.units.kllm.kllm_chip.sizes import ChipSizes
from refemu.units.kllm.kllm_chip.unit import UNIT, KllmChip, Result, State, matmul, on_chip, run

__all__ = ["UNIT", "ChipSizes", "KllmChip", "Result", "State", "matmul", "on_chip", "run"]
