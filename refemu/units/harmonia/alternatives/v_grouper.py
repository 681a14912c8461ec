"""Other answers to the decisions of v_grouper."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor")
