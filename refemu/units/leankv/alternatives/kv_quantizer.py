"""Other answers to the decisions of kv_quantizer."""

from refemu.units.alternative import Alternative, choices

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-1", "preset", "paper", "diffkv"),
    *choices("D-leankv-3", "quantize_with", "unrounded", "stored"),
)
