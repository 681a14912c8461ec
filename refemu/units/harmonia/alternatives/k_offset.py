"""Other answers to the decisions of k_offset."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-harmonia-23", "offset_sign", "unsigned"),
    *choices("D-harmonia-24", "offset_k", 1),
)
