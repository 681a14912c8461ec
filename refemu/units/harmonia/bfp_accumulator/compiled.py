"""Compiled twin of bfp_accumulator: one kernel scales, rounds and adds the groups of every device. [harmonia §IV-B]

`accumulate` is shared with the twins of a PE and of the array.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from refemu.arith import fp16_jit
from refemu.arith.float_jit.groups import accumulate_groups
from refemu.arith.fp16_jit import plain
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4, UNIT, Accumulator, exponent


@twin(UNIT)
def run(device: Accumulator, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All groups; devices side by side."""
    mode, clear, psum, low, a_exp, b_exp, w_scale = inputs
    p, value, acc, flags = outputs
    fused = mode == M8M8
    p[:] = np.where(fused, 16 * psum.astype(np.int32) + low, psum)
    value[:], acc[:], flags[:] = accumulate(device, mode, clear, p, a_exp, b_exp, w_scale)
    return int(np.count_nonzero(fused)), p.size, int(np.count_nonzero(mode == M8W4)), p.size


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
    power = np.ldexp(1.0, exponent(mode, a_exp.astype(np.int32), b_exp.astype(np.int32)))
    value, acc, flags = (np.empty(rows, dtype) for dtype in (np.float32, np.float32, np.uint8))
    inputs = p, power, fp16_jit.to_f32(w_scale.view(np.float16)), mode == M8W4, clear
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
