"""Compiled twin of `scores`: same names, same arguments, same bits. Kernels: `float_jit`."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import float_jit
from refemu.arith.fp16_jit import elementwise
from refemu.arith.fp32 import require_f32


def tanh32(x: ArrayLike) -> np.ndarray:
    """`scores.tanh32`."""
    return elementwise(float_jit.tanh_all, require_f32(x, "tanh32"))


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    """`scores.softcap`."""
    limit = np.float32(cap)
    with np.errstate(all="ignore"):
        return limit * tanh32(x / limit)
