"""The compressor of a KV cache: quantizes tokens into pages, and moves a token from the high to the low precision."""

from refemu.units.leankv.kv_compressor.kv_compressor import *
from refemu.units.leankv.kv_compressor.tokens import *

__all__ = [
    "APPEND_HIGH",
    "APPEND_LOW",
    "DROP",
    "QUIRKS",
    "REPLACE",
    "UNIT",
    "KvCompressor",
    "PromptPlan",
    "State",
    "places",
    "plan_prompt",
    "requantize",
    "run",
    "write",
    "write_prompt",
]
