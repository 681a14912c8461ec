"""Variants of the decisions of concat."""

from typing import Any

from refemu.arith.checks import Refused
from refemu.units import Config, Variant
from refemu.units.kllm.concat import INPUT_BITS


def _second_high(config: Config, inputs: Any, result: Any) -> Any:
    return {"q": ((inputs["b"] << config["a_bits"]) | inputs["a"]).astype(result.q.dtype)}


def _fixed_places(config: Config, inputs: Any, result: Any) -> Any:
    if config["b_bits"] == INPUT_BITS:
        raise Refused("concat: b_bits must be below 4 for this variant, got 4")
    return {"q": ((inputs["a"] << INPUT_BITS) | inputs["b"]).astype(result.q.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-6", "the second operand is the high part", answer=_second_high),
    Variant("D-kllm-6", "the first operand is always shifted by four places", answer=_fixed_places),
)
