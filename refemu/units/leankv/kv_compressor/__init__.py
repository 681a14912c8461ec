"""The compressor of a KV cache: quantizes tokens into pages, and moves a token from the high to the low precision."""

from refemu.units.leankv.kv_compressor.kv_compressor import (
    APPEND_HIGH,
    APPEND_LOW,
    DROP,
    REPLACE,
    UNIT,
    KvCompressor,
    State,
    run,
)
from refemu.units.leankv.kv_compressor.tokens import (
    QUIRKS,
    PromptPlan,
    places,
    plan_prompt,
    requantize,
    write,
    write_prompt,
)

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
