"""Compiled twin of bfp_accumulator.run: same arguments, same Result. Read bfp_accumulator.py first. [harmonia §IV-B]

`accumulate` is what the twins of a PE and of the array build on.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16_jit
from refemu.arith.float_jit.groups import accumulate_groups
from refemu.arith.fp16_jit import plain
from refemu.units.bfp_accumulator import M8M8, M8W4, Accumulator, Result, exponent, require_legal
from refemu.units.unit import admit_events


def run(
    mode: Any,
    clear: Any,
    psum: Any,
    low: Any,
    a_exp: Any,
    b_exp: Any,
    w_scale: Any,
    *,
    partial: str = "fp16",
    product: str = "fp32",
) -> Result:
    """As `bfp_accumulator.run`."""
    device = Accumulator(partial, product)
    modes, clears, high, nibbles, a, b, factor = admit_events(
        device.name, device.ports.inputs, (mode, clear, psum, low, a_exp, b_exp, w_scale)
    )
    require_legal(device.name, modes, factor, low=nibbles, b_exp=b)
    fused = modes == M8M8
    p = np.where(fused, 16 * high.astype(np.int32) + nibbles, high).astype(np.int32)
    value, acc, flags = accumulate(device, modes, clears, p, a, b, factor)
    scaled = int(np.count_nonzero(modes == M8W4))
    return Result(p, value, acc, flags, int(np.count_nonzero(fused)), p.size, scaled, p.size)


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
