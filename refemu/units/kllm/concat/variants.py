"""Variants of the decisions of concat."""

from typing import Any

from refemu.arith.checks import Refused
from refemu.units import Config, Variant
from refemu.units.kllm.concat import INPUT_BITS


def second_high(config: Config, inputs: Any, result: Any) -> Any:
    """The second operand is the high part."""
    return {"q": ((inputs["b"] << config["a_bits"]) | inputs["a"]).astype(result.q.dtype)}


def fixed_places(config: Config, inputs: Any, result: Any) -> Any:
    """The first operand is always shifted by four places."""
    if config["b_bits"] == INPUT_BITS:
        raise Refused("concat: b_bits must be below 4 for this variant, got 4")
    return {"q": ((inputs["a"] << INPUT_BITS) | inputs["b"]).astype(result.q.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-6", "the second operand is the high part", answer=second_high),
    Variant("D-kllm-6", "the first operand is always shifted by four places", answer=fixed_places),
)
