"""The accumulator of a PE and of the array for their compiled forms: all groups of every device. [harmonia §IV-B]"""

from math import prod

import numpy as np

from refemu.arith import fp16_compiled
from refemu.arith.fp16_compiled import plain
from refemu.arith.kernels.groups import accumulate_groups
from refemu.units.harmonia.bfp_accumulator import M8W4, Accumulator
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import POINT


def accumulate(
    device: Accumulator,
    mode: np.ndarray,
    clear: np.ndarray,
    p: np.ndarray,
    a_exp: np.ndarray,
    b_exp: np.ndarray,
    w_scale: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Value, accumulator (words of float32) and flags after every group of every device, all (..., groups)."""
    rows = (prod(p.shape[:-1]), p.shape[-1])
    of_b = np.where(mode == M8W4, 0, np.maximum(b_exp, 1)) + np.asarray(POINT, np.int32)[mode]  # as `exponent`
    power = np.ldexp(1.0, np.maximum(a_exp, 1) + of_b)
    value, acc, flags = (np.empty(rows, dtype) for dtype in (np.float32, np.float32, np.uint8))
    inputs = p, power, fp16_compiled.to_f32(w_scale.view(np.float16)), mode == M8W4, clear
    with np.errstate(all="ignore"):  # overflow, and infinity times a factor of 0
        accumulate_groups(
            *(plain(array).reshape(rows) for array in inputs),
            device.partial == "fp16",
            device.product == "fp16",
            value,
            acc,
            flags,
        )
    return tuple(array.reshape(p.shape) for array in (value.view(np.uint32), acc.view(np.uint32), flags))
