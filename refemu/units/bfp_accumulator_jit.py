"""Compiled twin of bfp_accumulator.run: same arguments, same Result. Read bfp_accumulator.py first. [harmonia §IV-B]

Everything but the sum is elementwise; `accumulate` is what the twins of a PE and of the array build on.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.jit import kernel
from refemu.arith.sums_jit import running32
from refemu.units.bfp_accumulator import M8M8, M8W4, Accumulator, Result, exponent, require_legal
from refemu.units.unit import admit_events


def run(mode: Any, clear: Any, psum: Any, low: Any, a_exp: Any, b_exp: Any, w_scale: Any, *, partial: str = "fp16",
        product: str = "fp32") -> Result:
    """As `bfp_accumulator.run`."""
    device = Accumulator(partial, product)
    modes, clears, high, nibbles, a, b, factor = admit_events(
        device.name, device.ports.inputs, (mode, clear, psum, low, a_exp, b_exp, w_scale))
    require_legal(device.name, modes, factor, low=nibbles, b_exp=b)
    fused = modes == M8M8
    p = np.where(fused, 16 * high.astype(np.int32) + nibbles, high).astype(np.int32)
    value, acc, flags = accumulate(device, modes, clears, p, a, b, factor)
    scaled = int(np.count_nonzero(modes == M8W4))
    return Result(p, value, acc, flags, int(np.count_nonzero(fused)), p.size, scaled, p.size)


def accumulate(device: Accumulator, mode: np.ndarray, clear: np.ndarray, p: np.ndarray, a_exp: np.ndarray,
               b_exp: np.ndarray, w_scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, accumulator (words of float32) and flags after every group of every device, all (..., groups)."""
    exact = np.ldexp(p.astype(np.float64), exponent(mode, a_exp.astype(np.int32), b_exp.astype(np.int32)))
    half = fp16_jit.round16_of_f64(exact) if device.partial == "fp16" else exact.astype(np.float32)
    small = (np.abs(half) < fp16.MIN_NORMAL) & (half != exact)
    with np.errstate(invalid="ignore"):  # infinity times a factor of 0
        scaled = half.astype(np.float64) * fp16.values(w_scale).astype(np.float64)
        rounded = fp16_jit.round16_of_f64(scaled) if device.product == "fp16" else scaled.astype(np.float32)
    value = fp16.canonical(np.where(mode == M8W4, rounded, half))
    rows = (prod(p.shape[:-1]), p.shape[-1])
    sticky, starts = np.empty(rows, np.uint8), np.ascontiguousarray(clear).reshape(rows)
    acc = running32(value.reshape(rows), starts)
    now = np.isinf(half) + 2 * small.astype(np.uint8) if device.partial == "fp16" else np.zeros(p.shape, np.uint8)
    _sticky(now.astype(np.uint8).reshape(rows) | np.uint8(4) * np.isnan(acc), starts, sticky)
    return value.view(np.uint32), acc.view(np.uint32).reshape(p.shape), sticky.reshape(p.shape)


@kernel
def _sticky(now, clear, out):  # type: ignore[no-untyped-def]
    for d in range(now.shape[0]):
        flags = np.int64(0)
        for t in range(now.shape[1]):
            flags = (flags & -np.int64(clear[d, t] == 0)) | np.int64(now[d, t])
            out[d, t] = flags
