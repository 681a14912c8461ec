"""Other answers to the decisions of bfp_converter."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
    *choices("D-harmonia-4", "subnormals", "flush"),
    *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
)
