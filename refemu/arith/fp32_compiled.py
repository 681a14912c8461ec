"""Compiled forms of `fp32`, and of tanh and soft caps: same names, arguments and bits. Kernels: arith.kernels."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp32, kernels
from refemu.arith.fp16 import canonical
from refemu.arith.fp16_compiled import elementwise, plain, ready
from refemu.arith.fp32 import require_f32
from refemu.arith.jit import quiet
from refemu.arith.jit.tiers import early
from refemu.arith.orders import Order, Sequential
from refemu.arith.sums_compiled import rows, total32


def fma32(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """Compiled form of `fp32.fma32`."""
    operands = (require_f32(x, "fma32", name) for x, name in ((a, "a"), (b, "b"), (c, "c")))
    return elementwise(kernels.fma32_all, *operands)


def exp32(x: ArrayLike) -> np.ndarray:
    """Compiled form of `fp32.exp32`."""
    return elementwise(kernels.exp_all, require_f32(x, "exp32"))


def softmax32(x: ArrayLike, order: Order) -> np.ndarray:
    """Compiled form of `fp32.softmax32`."""
    value = fp32.require_rows(x, "softmax32")
    if (shares := early(kernels.softmax_rows, value.size, lambda: fp32.softmax32(value, order))) is not None:
        return shares
    ready()
    flat = plain(rows(value))
    out = np.empty_like(flat)
    with np.errstate(all="ignore"):
        if isinstance(order, Sequential):
            kernels.softmax_rows(flat, out)
            return out.reshape(value.shape)
        for row, result in zip(flat, out, strict=True):
            kernels.shifted_exp(row, result)
        return canonical(out / total32(out, order=order)[:, None]).reshape(value.shape)


def rmsnorm(x: ArrayLike, gamma: ArrayLike, eps: float, order: Order) -> np.ndarray:
    """Compiled form of `fp32.rmsnorm`."""
    if not isinstance(order, Sequential):
        return fp32.rmsnorm(x, gamma, eps, order)
    value, gain = fp32.norm_operands(x, gamma, "rmsnorm")
    flat = plain(rows(value))
    out = np.empty_like(flat)
    with quiet():
        kernels.rmsnorm_rows(flat, plain(gain), np.float32(eps), False, out)
    return out.reshape(value.shape)


def layernorm(x: ArrayLike, gamma: ArrayLike, beta: ArrayLike, eps: float, order: Order) -> np.ndarray:
    """Compiled form of `fp32.layernorm`."""
    value, _ = fp32.norm_operands(x, gamma, "layernorm")
    _, offset = fp32.norm_operands(x, beta, "layernorm", "beta")
    with np.errstate(all="ignore"):
        mean = total32(value, order=order) / np.float32(value.shape[-1])
        return canonical(rmsnorm(value - mean[..., None], gamma, eps, order) + offset)


def rotate(x: ArrayLike, cos: ArrayLike, sin: ArrayLike, interleaved: bool) -> np.ndarray:
    """Compiled form of `fp32.rotate`."""
    value, c, s = fp32.rotate_operands(x, cos, sin)
    value = plain(value)
    out = np.empty_like(value)
    first, second = (2, 1) if interleaved else (1, value.shape[-1] // 2)
    with quiet():
        kernels.rotate_pairs(value, plain(c), plain(s), first, second, False, out)
    return out


def rmsnorm16(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    """`rmsnorm` in sequence rounded to fp16, at once and without a check of x (..., K) and gain (K,), both float32."""
    normed = early(kernels.rmsnorm_rows, x.size, lambda: fp16.round16(fp32.rmsnorm(x, gain, eps, Sequential())))
    if normed is not None:
        return normed
    flat = plain(x).reshape(-1, x.shape[-1])
    out = np.empty_like(flat)
    with quiet():
        kernels.rmsnorm_rows(flat, plain(gain), np.float32(eps), True, out)
    return out.reshape(x.shape)


def rotate16(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool) -> np.ndarray:
    """`rotate` rounded to fp16, at once and without a check of x (T, H, D), cos and sin (T, D/2), all float32."""
    rotated = early(kernels.rotate_pairs, x.size, lambda: fp16.round16(fp32.rotate(x, cos, sin, interleaved)))
    if rotated is not None:
        return rotated
    value = plain(x)
    out = np.empty_like(value)
    first, second = (2, 1) if interleaved else (1, x.shape[-1] // 2)
    with quiet():
        kernels.rotate_pairs(value, plain(cos), plain(sin), first, second, True, out)
    return out


def tanh32(x: ArrayLike) -> np.ndarray:
    """Hyperbolic tangent, rounded to float32: compiled form of `scores.tanh32`."""
    return elementwise(kernels.tanh_all, require_f32(x, "tanh32"))


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    """Compiled form of `scores.softcap`."""
    limit = np.float32(cap)
    with np.errstate(all="ignore"):
        return canonical(limit * tanh32(x / limit))
