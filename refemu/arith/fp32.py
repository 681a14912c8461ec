"""float32 functions from basic operations only: fused multiply-add, exponential, softmax, norms, rotation.

No function of a C library: `np.exp` on float32 is not the nearest value for 41 % of inputs and differs between CPUs
(D-arith-6). Nothing here rounds to fp16; the caller does, once. NaN results are canonical (D-arith-1).
"""

import functools
import hashlib
from decimal import Context, Decimal

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import selftest
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index
from refemu.arith.fp16 import canonical, round_to_odd
from refemu.arith.orders import Order
from refemu.arith.sums import total32

__all__ = ["exp32", "fma32", "layernorm", "rmsnorm", "rotate", "rsqrt32", "sigmoid32", "silu32", "softmax32"]


EXP_TABLE_SHA256 = "88c233557c8c42e92e6e0af7bd1704fcad9d649c3c5aeef5a87004915d81d98f"
INV = float.fromhex("0x1.71547652b82fep+6")  #: 64 / ln 2
HI = float.fromhex("0x1.62e42feep-7")  #: ln 2 / 64 to 32 bits, so that its product with k is exact
LO = float.fromhex("0x1.a39ef35793c76p-39")  #: the rest of ln 2 / 64
SHIFT = float.fromhex("0x1.8p52")  #: added and taken away again, it rounds to an integer
C3, C4, C5 = (float.fromhex(c) for c in ("0x1.5555555555555p-3", "0x1.5555555555555p-5", "0x1.1111111111111p-7"))


def require_f32(x: ArrayLike, thing: str, name: str = "x") -> np.ndarray:
    """`x` as a float32 array, float16 widened; RefusedType for another dtype."""
    array = as_array(x)
    if array.dtype not in (np.float32, np.float16):
        raise RefusedType(f"{thing}: {name} must be float32, got dtype {array.dtype}")
    selftest.require_round_to_nearest()
    return array.astype(np.float32, copy=False)


def fma32(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """Multiply and add, a * b + c rounded once to float32.

    The product is exact in float64; the sum, rounded to odd there, cannot lead the second rounding astray.

    Parameters
    ----------
    a, b, c : array_like of float32
        Operands; they broadcast.

    Returns
    -------
    ndarray of float32
        Results.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    x, y, z = (require_f32(value, "fma32", name) for value, name in ((a, "a"), (b, "b"), (c, "c")))
    with np.errstate(all="ignore"):
        return canonical(fused32(x, y, z))


def fused32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`fma32` of values that an operation gave, so without checks; a NaN is as the processor gives it."""
    product, addend = a.astype(np.float64) * b, np.asarray(c, np.float64)
    return round_to_odd(product + addend, product, addend).astype(np.float32)


@functools.cache
def exp_table() -> np.ndarray:
    """2**(j/64) nearest in float64, j = 0..63, checked against its sha256. From `decimal` square roots, 60 digits."""
    context = Context(prec=60)
    roots = [Decimal(2)]
    for _ in range(6):
        roots.append(context.sqrt(roots[-1]))
    powers = [Decimal(1)]
    for j in range(1, 64):
        top = j.bit_length() - 1
        powers.append(context.multiply(powers[j - (1 << top)], roots[6 - top]))
    table = np.array([float(power) for power in powers], "<f8")
    if hashlib.sha256(table.tobytes()).hexdigest() != EXP_TABLE_SHA256:
        raise ArithmeticError("exp32: the table of powers of 2 does not have its sha256; `decimal` is not usable")
    table.flags.writeable = False
    return table


def exp32(x: ArrayLike) -> np.ndarray:
    """Exponential, correctly rounded to float32 for every argument.

    With x = (k + r) ln 2 / 64 and |r| <= 1/2, it multiplies a table entry, a polynomial and a power of 2. All are in
    float64, with an error below 1.26 ulp. No exact result is so close to a midpoint that this error matters.

    Parameters
    ----------
    x : array_like of float32
        Values.

    Returns
    -------
    ndarray of float32
        e**x.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    value = require_f32(x, "exp32")
    nan = np.isnan(value)
    d = np.where(nan, 0.0, value).astype(np.float64)
    d = np.where(d < -110.0, -110.0, np.where(d > 90.0, 90.0, d))
    with np.errstate(over="ignore", under="ignore"):
        result = exp64(d).astype(np.float32)
    return canonical(np.where(nan, np.float32(np.nan), result))


def exp64(d: np.ndarray) -> np.ndarray:
    """e**d of float64 values in [-110, 90], in float64 with an error below 1.26 ulp."""
    t = d * INV + SHIFT
    kf = t - SHIFT
    r = (d - kf * HI) - kf * LO
    k = np.asarray(t).view(np.int64) - np.float64(SHIFT).view(np.int64)
    p = r + (r * r) * (0.5 + r * (C3 + r * (C4 + r * C5)))
    s = exp_table()[k & 63]
    return np.ldexp(s + s * p, k >> 6)


def sigmoid32(x: ArrayLike) -> np.ndarray:
    """Sigmoid 1 / (1 + exp32(-x)), each operation rounded to float32.

    Parameters
    ----------
    x : array_like of float32
        Values.

    Returns
    -------
    ndarray of float32
        Results.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    value = require_f32(x, "sigmoid32")
    with np.errstate(all="ignore"):
        return canonical(np.float32(1) / (np.float32(1) + exp32(-value)))


def silu32(x: ArrayLike) -> np.ndarray:
    """SiLU x * sigmoid32(x) in float32; -inf gives -0.

    Parameters
    ----------
    x : array_like of float32
        Values.

    Returns
    -------
    ndarray of float32
        Results.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    value = require_f32(x, "silu32")
    with np.errstate(all="ignore"):
        product = value * sigmoid32(value)
    return canonical(np.where(value == -np.inf, np.float32(-0.0), product))


def rsqrt32(x: ArrayLike) -> np.ndarray:
    """Reciprocal square root in float32, two roundings; +-0 gives +-inf (D-arith-9), negative values NaN.

    Parameters
    ----------
    x : array_like of float32
        Values.

    Returns
    -------
    ndarray of float32
        1 / sqrt(x).

    Raises
    ------
    RefusedType
        Another dtype.
    """
    with np.errstate(all="ignore"):
        return canonical(np.float32(1) / np.sqrt(require_f32(x, "rsqrt32")))


def softmax32(x: ArrayLike, order: Order) -> np.ndarray:
    """Softmax of the last axis: e = exp32(x - max), then e / `total32(e, order)`.

    A row with NaN or +inf is NaN all over (D-arith-17).

    Parameters
    ----------
    x : array_like of float32 (..., K)
        K >= 1.
    order : Order
        Order of the sum.

    Returns
    -------
    ndarray of float32 (..., K)
        Probabilities.

    Raises
    ------
    Refused
        A row holds -inf only.
    RefusedType
        Another dtype or shape.
    """
    value = require_rows(x, "softmax32")
    top = np.max(_key(value), axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        e = exp32(value - _from_key(top))
        return canonical(e / total32(e, order=order)[..., None])


def require_rows(x: ArrayLike, thing: str) -> np.ndarray:
    """float32 (..., K) whose every row holds more than -inf."""
    value = require_f32(x, thing)
    if value.ndim < 1 or value.shape[-1] < 1:
        raise RefusedType(f"{thing}: rows of at least one value are needed, got shape {value.shape}")
    empty = (value == -np.inf).all(axis=-1)
    if empty.any():
        raise Refused(f"{thing}: a row without a finite value{at(first_index(empty))}")
    return value


def _key(x: np.ndarray) -> np.ndarray:
    """Integers in the order of float32 `x`: a float maximum would depend on the CPU where zeros or NaN meet."""
    word = x.view(np.int32).astype(np.int64)
    return np.where(word < 0, word ^ 0x7FFF_FFFF, word)


def _from_key(key: np.ndarray) -> np.ndarray:
    return np.where(key < 0, key ^ 0x7FFF_FFFF, key).astype(np.int32).view(np.float32)


def rmsnorm(x: ArrayLike, gamma: ArrayLike, eps: float, order: Order) -> np.ndarray:
    """Root-mean-square norm of the last axis.

    ss = sum of x*x in `order`; v = ss / K; v = v + eps; g = rsqrt32(v); y = (x * g) * gamma, every step float32.

    Parameters
    ----------
    x : array_like of float32 (..., K)
        Values.
    gamma : array_like of float32 (K,)
        Gain.
    eps : float
        Added to the mean square.
    order : Order
        Order of the sum.

    Returns
    -------
    ndarray of float32 (..., K)
        Normed values, not rounded to fp16.

    Raises
    ------
    RefusedType
        Another dtype or shape.
    """
    value, gain = norm_operands(x, gamma, "rmsnorm")
    with np.errstate(all="ignore"):
        return canonical((value * _inverse_rms(value, eps, order)) * gain)


def layernorm(x: ArrayLike, gamma: ArrayLike, beta: ArrayLike, eps: float, order: Order) -> np.ndarray:
    """Layer norm of the last axis: mean = sum / K, d = x - mean, then `rmsnorm` on d, then + beta.

    Parameters
    ----------
    x : array_like of float32 (..., K)
        Values.
    gamma, beta : array_like of float32 (K,)
        Gain and offset.
    eps : float
        Added to the variance.
    order : Order
        Order of the sums.

    Returns
    -------
    ndarray of float32 (..., K)
        Normed values, not rounded to fp16.

    Raises
    ------
    RefusedType
        Another dtype or shape.
    """
    value, gain = norm_operands(x, gamma, "layernorm")
    _, offset = norm_operands(x, beta, "layernorm", "beta")
    with np.errstate(all="ignore"):
        mean = total32(value, order=order) / np.float32(value.shape[-1])
        d = value - mean[..., None]
        return canonical((d * _inverse_rms(d, eps, order)) * gain + offset)


def _inverse_rms(x: np.ndarray, eps: float, order: Order) -> np.ndarray:
    mean = total32(x * x, order=order) / np.float32(x.shape[-1])
    return rsqrt32(mean + np.float32(eps))[..., None]


def norm_operands(x: ArrayLike, vector: ArrayLike, thing: str, name: str = "gamma") -> tuple[np.ndarray, np.ndarray]:
    """`x` (..., K), K >= 1, and `vector` (K,), both float32."""
    value, array = require_f32(x, thing), require_f32(vector, thing, name)
    if value.ndim < 1 or not value.shape[-1] or array.shape != value.shape[-1:]:
        raise RefusedType(f"{thing}: {name} of shape {array.shape} does not fit x of shape {value.shape}")
    return value, array


def rotate(x: ArrayLike, cos: ArrayLike, sin: ArrayLike, interleaved: bool) -> np.ndarray:
    """Rotate pairs (a, b) of the last axis to (a*c - b*s, a*s + b*c): rotary positions.

    Every operation is float32, nothing fused.

    Parameters
    ----------
    x : array_like of float32 (T, H, D)
        Queries or keys.
    cos, sin : array_like of float32 (T, D/2)
        Cosine and sine of each position.
    interleaved : bool
        Pairs are (0, 1), (2, 3), ... or else (i, i + D/2).

    Returns
    -------
    ndarray of float32 (T, H, D)
        Rotated values, not rounded to fp16.

    Raises
    ------
    RefusedType
        Another dtype or shape.
    """
    value, c, s = rotate_operands(x, cos, sin)
    half = value.shape[-1] // 2
    first, second = (np.s_[..., ::2], np.s_[..., 1::2]) if interleaved else (np.s_[..., :half], np.s_[..., half:])
    a, b = value[first], value[second]
    result = np.empty_like(value)
    with np.errstate(all="ignore"):
        result[first] = a * c[:, None] - b * s[:, None]
        result[second] = a * s[:, None] + b * c[:, None]
    return canonical(result)


def rotate_operands(x: ArrayLike, cos: ArrayLike, sin: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of `rotate` as float32 arrays whose shapes fit."""
    value, c, s = require_f32(x, "rotate"), require_f32(cos, "rotate", "cos"), require_f32(sin, "rotate", "sin")
    if value.ndim != 3 or value.shape[-1] % 2 or not c.shape == s.shape == (value.shape[0], value.shape[-1] // 2):
        raise RefusedType(f"rotate: x (T, H, D) needs tables (T, D/2), got {value.shape}, {c.shape}, {s.shape}")
    return value, c, s
