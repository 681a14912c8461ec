"""Other answers to the decisions of harmonia_core."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = choices("D-harmonia-7", "partial", "fp16", "fp32")
