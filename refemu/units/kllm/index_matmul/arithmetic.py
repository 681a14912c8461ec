"""Arithmetic of the index MatMul except counts and the weighted sum: scales, sparse operands, zero points, merge.

Paper: [kllm §III-D, Fig. 5; §III-C2 for the delayed division]. Array functions: one element per output.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith import exact, fp16
from refemu.arith.integers import total
from refemu.formats.kllm.kllm_arith import KllmArith, Reduction
from refemu.units.declaration import decides

UNIT_BITS = 48  #: products of two fp16 values, and entries of product codebooks, are multiples of 2**-48


def floats(words: Any) -> np.ndarray:
    """fp16 words as float32."""
    return fp16.to_f32(np.array(words, np.uint16).view(np.float16))


@decides("D-kllm-32")
def dequantized(index: np.ndarray, mask: Any, outlier: Any, centroids: np.ndarray, scale: Any) -> np.ndarray:
    """Values for the sparse path: r16(s * c), or the outlier. Leading axes are vectors."""
    with np.errstate(all="ignore"):
        inliers = fp16.round16_of_f64(np.asarray(scale)[..., None] * centroids.astype(np.float64))
    inlier = np.take_along_axis(inliers, index.astype(np.intp), -1)
    return np.where(np.asarray(mask, np.bool_), floats(outlier), inlier).astype(np.float32, copy=False)


def marginals(count: np.ndarray, b_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts (..., 2**(nA+nB)) by A's index and by B's index."""
    table = count.reshape(*count.shape[:-1], -1, 1 << b_bits)
    return total(table, axis=-1), total(table, axis=-2)


def rounded(x: np.ndarray, acc: Reduction) -> np.ndarray:
    """Exact float64 rounded to the accumulator's format: float64 that holds float32 or fp16 values."""
    if acc == "fp32":
        with np.errstate(over="ignore"):
            return x.astype(np.float32).astype(np.float64)
    return r16(x)


def r16(x: np.ndarray) -> np.ndarray:
    """float64 rounded once to fp16, as float64."""
    return fp16.round16_of_f64(np.asarray(x)).astype(np.float64)


def joint_scale(a: np.ndarray, b: np.ndarray | float, arith: KllmArith) -> np.ndarray:
    """sA * sB: rounded to fp16, or exact, by `arith.scale_y` (22 bits of fp16 scales; float64)."""
    product = np.asarray(a * b)
    return r16(product) if arith.scale_y == "fp16" else product


def merge(
    inside: np.ndarray,
    scale: np.ndarray,
    outside: np.ndarray,
    arith: KllmArith,
    bias: np.ndarray | None = None,
    shift: np.ndarray | None = None,
) -> np.ndarray:
    """Y of rounding accumulators: scale the dense part, add the sparse one, subtract `shift`, add the bias.

    Each operation rounds, the last one to fp16 [kllm §III-D, Fig. 5]. Arguments are float64 and broadcast; returns
    float32. For a float32 accumulator, an exact product of scales, and whole arrays; `Fp16Mac` does it on fp16 words.
    """
    terms = [outside] + ([-shift] if shift is not None else []) + ([bias] if bias is not None else [])
    with np.errstate(all="ignore"):
        y = rounded(inside * scale, arith.acc)
        for place, term in enumerate(terms):
            y = rounded(y + term, "fp16" if place == len(terms) - 1 else arith.acc)
    return fp16.canonical(y.astype(np.float32))


@decides("D-kllm-39")
def mean_term(shift: Any, row_sum: Any) -> np.ndarray:
    """LayerNorm's r16(h * R_n) of fp16 values in float64: what the merge subtracts."""
    with np.errstate(all="ignore"):
        return r16(np.asarray(shift) * np.asarray(row_sum))


@decides("D-kllm-10")
def zero_terms(
    dense: np.ndarray, parts: tuple[np.ndarray, ...], za: np.ndarray, zb: np.ndarray, acc: Reduction
) -> np.ndarray:
    """A weighted sum corrected by zero points: - zB*SA - zA*SB + K'*zA*zB, each product and sum rounded.

    parts: SA, SB and K', the weighted sums over the marginal counts and the number of positions. All float64.
    """
    sum_a, sum_b, counted = parts
    with np.errstate(all="ignore"):
        dense = rounded(dense - rounded(zb * sum_a, acc), acc)
        dense = rounded(dense - rounded(za * sum_b, acc), acc)
        return rounded(dense + rounded(rounded(counted, acc) * rounded(za * zb, acc), acc), acc)


def finish_exact(v: Fraction, bias: float | None = None, norm: tuple[float, float, float] | None = None) -> float:
    """Y of the exact accumulator: v + bias rounded once; after a norm (divisor, mean, R_n) float64 operations first.

    Returns an fp16 value, infinite where it overflows.
    """
    if norm is None:
        biased = v + Fraction(bias or 0)
        value = exact.to_odd(biased.numerator, 1 - biased.denominator.bit_length())
    else:
        divisor, mean, row_sum = norm
        value = (float(v) - mean * row_sum) / divisor
        value = value if bias is None else value + bias
    return float(fp16.round16_of_f64(np.float64(value)))
