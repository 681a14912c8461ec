"""Variants of the decisions of weighted_sum, and those of a field of KllmArith."""

from dataclasses import replace
from functools import partial
from typing import Any

from refemu.arith import dot
from refemu.formats.kllm.kllm_arith import LANES, KllmArith
from refemu.units import Config
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.weighted_sum import WeightedSum
from refemu.units.variant import Variant, overriding


def option(decision: str, says: str, **fields: Any) -> Variant:
    """A variant with other values for some fields of the arithmetic."""
    return Variant(decision, says, partial(_with, fields))


def _with(fields: dict[str, Any], config: Config) -> Config:
    return Config(**{**config, "preset": replace(KllmArith.preset(config["preset"]), **fields)})


LARGEST, BITS = 65504, 11  #: largest value of fp16, and bits of its significand


def _saturated_counts(old: WeightedSum, self: WeightedSum, *inputs: Any) -> DeclaredState:
    count, codebook = inputs
    return old._open(tuple(min(number, LARGEST) for number in count), codebook)


def _truncated_counts(old: WeightedSum, self: WeightedSum, *inputs: Any) -> DeclaredState:
    count, codebook = inputs
    drops = [max(number.bit_length() - BITS, 0) for number in count]
    return old._open(tuple(n >> drop << drop for n, drop in zip(count, drops, strict=True)), codebook)


def _narrow_counts(old: WeightedSum, self: WeightedSum, *inputs: Any) -> DeclaredState:
    count, codebook = inputs
    return old._open(tuple(number & ((1 << BITS) - 1) for number in count), codebook)


_device = overriding(WeightedSum)
VARIANTS: tuple[Variant, ...] = (
    option("D-kllm-2", "32 MACs, their results added as a tree", acc="fp16", order=LANES),
    option("D-kllm-3", "fused", acc="fp16_fma", order=dot.Sequential()),
    _device("D-kllm-4: a count beyond fp16 saturates", _open=_saturated_counts),
    _device("D-kllm-4: a count is truncated to eleven bits", _open=_truncated_counts),
    _device("D-kllm-4: a count above 2,047 wraps", _open=_narrow_counts),
)
