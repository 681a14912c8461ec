"""Other answers to the decisions of index_function."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-kllm-17", "mode", "token", "literal")
