"""Variants of the decisions of index_function."""

from refemu.units.variant import Variant, choices

VARIANTS: tuple[Variant, ...] = choices("D-kllm-17", "mode", "token", "literal")
