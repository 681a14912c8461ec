"""Compiled form of `linear.Linear.sums` for fp16 values: groups without an intermediate tensor of codes.

Read linear.py first. [harmonia §IV-B]. For the options of the paper; others, and invalid values, go to the form with a
tensor.
"""

import numpy as np

from refemu.arith import dot_compiled
from refemu.arith.fp16_compiled import plain
from refemu.arith.jit import quiet
from refemu.formats.groups import count
from refemu.formats.harmonia.compiled.bfp_dot import Prepared
from refemu.models.schemes.harmonia.compiled.bfp_heads import bfp_operand
from refemu.models.schemes.harmonia.config import HarmoniaConfig


def sums(config: HarmoniaConfig, x: np.ndarray, weights: Prepared) -> np.ndarray | None:
    """FP32 sums (tokens, outputs) of fp16 values x (tokens, inputs) in float32; None if only another form can."""
    panels, most = weights.panels, (1 << config.act_mantissa) - 1
    if not is_plain(config) or config.scale_per != 32 or most * panels.peak * config.group >= 1 << 24:
        return None
    converted = operand(x, config.group, config.act_mantissa)
    return (
        None if converted is None else dot_compiled.group_sums(*converted, most, panels, config.partial, config.product)
    )


def is_plain(config: HarmoniaConfig) -> bool:
    """Whether a conversion is the paper's: it truncates, rejects infinity and NaN, and keeps subnormals."""
    return (config.rounding, config.special, config.subnormals) == ("truncate", "error", "keep")


def operand(x: np.ndarray, group: int, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows of fp16 values as float32 integers of `width` bits, padded to whole groups, and the value of 1 in each.

    None if a value is not finite.
    """
    groups = count(x.shape[1], group)
    integers, powers = np.zeros((len(x), groups * group), np.float32), np.empty((len(x), groups), np.float32)
    with quiet():
        status = bfp_operand(plain(x), group, width, integers, powers)
    return None if status else (integers, powers)
