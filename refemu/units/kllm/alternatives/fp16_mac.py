"""Other answers to the decisions of fp16_mac."""

from refemu.units.alternative import Alternative, choices
from refemu.units.kllm.fp16_mac import ROUNDINGS

ALTERNATIVES: tuple[Alternative, ...] = choices("D-kllm-3", "rounding", *ROUNDINGS)
