"""Other answers to the decisions of olive_mac."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-olive-33", "overflow", "wrap", "saturate")
