"""Variants of the decisions of index_product."""

from typing import Any

import numpy as np

from refemu.units import Config, Variant


def _second_high(config: Config, inputs: Any, result: Any) -> Any:
    q = (inputs["b"] << config["a_bits"]) | inputs["a"]
    return {"q": np.where(result.mask, result.q, q).astype(result.q.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-6", "the second operand is the high part of the index", answer=_second_high),
)
UNOBSERVABLE = {"D-kllm-16": "The 8-bit index of the product leaves this unit either way; it is quantized again later."}
