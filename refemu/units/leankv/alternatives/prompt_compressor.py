"""Other answers to the decisions of prompt_compressor."""

from refemu.units.alternative import Alternative, choices
from refemu.units.leankv.prompt_compressor import RULES

ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-leankv-20", "rule", *RULES[:2]),
    *choices("D-leankv-21", "low_cumsum", "restart"),
    *choices("D-leankv-23", "order", "stable", "bitonic"),
)
