"""Other answers to the decisions of fp2half."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-harmonia-13", "saturate", False, True)
