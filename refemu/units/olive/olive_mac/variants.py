"""Variants of the decisions of olive_mac."""

from refemu.units.variant import Variant, choices

VARIANTS: tuple[Variant, ...] = choices("D-olive-33", "overflow", "wrap", "saturate")
