"""Other answers to the decisions of bfp_aligner."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
    *choices("D-harmonia-4", "subnormals", "flush"),
    *choices("D-harmonia-5", "special", "error", "hw", "saturate"),
    *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
)
