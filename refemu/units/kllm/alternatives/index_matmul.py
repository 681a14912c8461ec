"""Other answers to the decisions of index_matmul."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-kllm-1", "preset", "exact")
