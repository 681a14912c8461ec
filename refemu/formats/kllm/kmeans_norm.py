"""Helpers of index-based norms: roundings, delayed divisions, and offline sums over the weights.

Paper: [kllm §III-C2, Eq. (3), Fig. 4]. Decisions: D-kllm-20 (where sums are rounded), D-kllm-39 (LayerNorm's R_n is a
sum over the quantized weights).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import exact, fp16
from refemu.arith.checks import Refused, RefusedType, at
from refemu.formats.kllm.kllm_arith import KllmArith, Preset, Statistic
from refemu.formats.kllm.kmeans_tensor import KMeansTensor


def folds(arith: KllmArith) -> bool:
    """Whether scales and centroids are divided before they meet; an exact accumulator divides its result instead."""
    return arith.acc != "exact"


def width(arith: KllmArith) -> int:
    """Bits of a mean or a root: 64 where sums are exact, else 32 (which holds fp16 values)."""
    return 64 if arith.stat == "exact" else 32


def rounder(stat: Statistic) -> Callable[[Any], Any]:
    """Rounds float64 arrays or numbers that an operation on narrower ones gave: "fp32", "fp16"; "exact" keeps them.

    One float64 operation on float32 (or fp16) operands, rounded again, is the operation rounded once.
    """
    return {"fp32": _round32, "fp16": _round16, "exact": lambda x: x}[stat]


def _round32(x: ArrayLike) -> Any:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(x, np.float64).astype(np.float32).astype(np.float64)[()]


def _round16(x: ArrayLike) -> Any:
    return fp16.round16_of_f64(np.asarray(x, np.float64)).astype(np.float64)[()]


def quotient16(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """r16(r32(a / b)), the delayed division [kllm §III-C2, Fig. 4]: float16. a, b: as for `quotient32`."""
    return fp16.to_f16(quotient32(np.asarray(a, np.float64), np.asarray(b, np.float64)))


def quotient32(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b of float64 arrays that broadcast, b above 0, the exact quotient rounded once to float32."""
    with np.errstate(all="ignore"):
        if (_round32(a) == a).all() and (_round32(b) == b).all():
            return np.asarray(a / b).astype(np.float32)  # 53 bits >= 2 * 24 + 2: a second rounding cannot go astray
        (x, power), (y, less) = np.frexp(a), np.frexp(b)  # the parts in [0.5, 1): no product leaves float64
        return np.ldexp(_to_odd(np.asarray(x / y), x, y), power - less).astype(np.float32)


def _to_odd(quotient: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotients x / y rounded to odd: an inexact one ends in 1, on the side of its error."""
    product = quotient * y
    error = (x - product) - _rest(quotient, y, product)  # both differences have the sign of the exact one
    word = quotient.view(np.int64)
    away = np.where((error > 0) == (quotient > 0), 1, -1)
    return np.where((np.abs(error) > 0) & (word & 1 == 0), word + away, word).view(np.float64)


def _rest(x: np.ndarray, y: np.ndarray, product: np.ndarray) -> np.ndarray:
    """x * y - product, exact: by halves of 26 bits, whose products float64 holds."""
    (a, b), (c, d) = _halves(x), _halves(y)
    return ((a * c - product) + a * d + b * c) + b * d


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x as the sum of two values of at most 26 bits each."""
    large = x * ((1 << 27) + 1)
    high = large - (large - x)
    return high, x - high


class NoDivisor(Refused):
    """A root that divides nothing, with the place of its vector."""

    def __init__(self, value: float, place: tuple[int, ...] = ()) -> None:
        """value: of the root. place: index of the vector, () for the only one."""
        super().__init__(f"index_norm: the divisor must be above 0, got {value}{at(place)}; set eps above 0")
        self.value = value


def require_normed(a: Any) -> KMeansTensor:
    """`a` if it is a tensor that a norm can count: fp16 scales, one codebook of fp16, no zero points, not empty."""
    if not isinstance(a, KMeansTensor):
        raise RefusedType(f"index_norm: a must be a KMeansTensor, got {type(a).__name__}")
    if a.zero is not None or a.scale.dtype != np.uint16 or a.codebook.entry_bits != 16 or a.codebook.values.ndim > 1:
        raise Refused("index_norm: the tensor must have fp16 scales, one codebook of fp16 and no zero points")
    if not a.length:
        raise Refused(f"index_norm: vectors must hold at least one value, got shape {a.shape}")
    return a


def row_sums(weights: KMeansTensor, preset: Preset | KllmArith = "paper") -> np.ndarray:
    """R_n of LayerNorm: the sum of every vector of `weights`, exact from s * c, rounded once (D-kllm-39).

    weights: fp16 scales, no zero points, no outliers. Returns float16 of the shape of its vectors; float64 where the
    accumulator is exact.
    """
    tensor = require_normed(weights)
    if tensor.outlier.size:
        raise Refused(f"row_sums: weights of a norm must have no outliers, got {tensor.outlier.size}")
    units = exact.steps(tensor.codebook.centroids)
    sums = np.array([units[row].tolist() for row in tensor.rows()], object).reshape(-1, tensor.length)
    totals = np.zeros(sums.shape[0], object)
    for k in range(tensor.length):
        totals = totals + sums[:, k]
    totals = totals * exact.steps(tensor.scales.astype(np.float32)).reshape(-1).astype(object)
    if not folds(KllmArith.preset(preset)):
        return np.array([int(total) / (1 << 48) for total in totals], np.float64).reshape(tensor.vectors)
    return fp16.narrow(exact.round_integers(totals)).reshape(tensor.vectors)


def folded_bias(beta: Any, weights: ArrayLike, bias: Any = None) -> np.ndarray:
    """b_n of LayerNorm: the sum over k of beta[k] * weights[k, n], plus bias[n], exact, rounded once to fp16.

    beta: float16 (K,). weights: float16 (K, N), as they are before quantization. bias: float16 (N,) or None.
    Returns float16 (N,).
    """
    terms = [fp16.bits(array) for array in (beta, weights)]
    if terms[0].ndim != 1 or terms[1].ndim != 2 or terms[0].shape != terms[1].shape[:1]:
        raise RefusedType(
            f"folded_bias: beta (K,) and weights (K, N) are needed, got {terms[0].shape}, {terms[1].shape}"
        )
    gains, rows = [fp16.to_f32(beta)], [fp16.to_f32(weights)]
    if bias is not None:
        gains, rows = [*gains, np.ones(1, np.float32)], [*rows, fp16.to_f32(bias)[None]]
    k = list(np.concatenate(gains)[:, None])
    return fp16.to_f16(exact.sum_products(k, list(np.concatenate(rows)), np.float32(0), "fp16"))
