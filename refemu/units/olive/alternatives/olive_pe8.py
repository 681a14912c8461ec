"""Other answers to the decisions of olive_pe8."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *choices("D-olive-36", "split", "twos_complement", "sign_magnitude"),
)
