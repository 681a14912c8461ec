"""Other answers to the decisions of weighted_sum."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from refemu.arith import dot
from refemu.formats.kllm.kllm_arith import LANES, KllmArith
from refemu.units.alternative import Alternative
from refemu.units.unit import Config


def _with(**choices: Any) -> Callable[[Config], Config]:
    return lambda config: Config(**{**config, "preset": replace(KllmArith.preset(config["preset"]), **choices)})


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-kllm-2", "32 MACs, their results added as a tree", _with(acc="fp16", order=LANES)),
    Alternative("D-kllm-3", "fused", _with(acc="fp16_fma", order=dot.Sequential())),
)
