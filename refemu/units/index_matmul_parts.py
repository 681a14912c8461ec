"""Parts of the index MatMul: its operands as vectors along K, and what follows the counting and the weighted sum.

Paper: [kllm §III-B, §III-D, Fig. 5; §III-C2 for the delayed division]. Decisions: D-kllm-32 (sparse operands in fp16),
D-kllm-33 (scales after the sum), D-kllm-37 (what a norm divides), D-kllm-39 (LayerNorm). Array functions: one element
per output.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.arith import exact, fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_int
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_tensor import KMeansTensor

NAME = "index_matmul"
UNIT_BITS = 48  #: products of two fp16 values, and entries of product codebooks, are multiples of 2**-48


@dataclass(frozen=True, eq=False)
class Scores:
    """The integer operand of an integer x K-Means MatMul, row by row: what the score quantizer makes, and its input."""

    q: np.ndarray  #: uint8 (..., K)
    scale: np.ndarray  #: float16 (...), or float32 where the accumulator is exact; an integer is a multiple of it
    p: np.ndarray  #: float16 (..., K): before quantization and fold, what meets an outlier of the other operand
    fold: bool = True  #: the other operand's scales are in q; False: it has one scale, which joins `scale`

    def __post_init__(self) -> None:
        if self.q.dtype != np.uint8 or self.p.dtype != np.float16 or self.scale.dtype not in (np.float16, np.float32):
            raise RefusedType(f"{NAME}: scores need q uint8, p float16, scale float16 or float32, got {self.q.dtype}, "
                              f"{self.p.dtype}, {self.scale.dtype}")
        if self.q.ndim == 0 or self.q.shape != self.p.shape or self.scale.shape != self.q.shape[:-1]:
            raise Refused(f"{NAME}: scores need q and p of one shape and a scale per row, got {self.q.shape}, "
                          f"{self.p.shape}, {self.scale.shape}")

    def __repr__(self) -> str:
        return f"<Scores {self.q.shape}>"


@dataclass(frozen=True, eq=False)
class Norm:
    """What a norm before the MatMul leaves to it: divisors, and for LayerNorm means and sums of weights."""

    divisor: np.ndarray  #: rms or standard deviation of each row of A, float32 or float64, (...), above 0
    mean: np.ndarray | None = None  #: LayerNorm: of each row, the same shape
    row_sum: np.ndarray | None = None  #: LayerNorm: R_n = s_n * sum of centroids of column n, (N,)

    def __post_init__(self) -> None:
        bad = ~(np.isfinite(self.divisor) & (np.asarray(self.divisor) > 0))
        if bad.any():
            where = first_index(bad)
            raise Refused(f"{NAME}: norm divisor {float(self.divisor[where])}{at(where)} is not positive and finite")
        if (self.mean is None) != (self.row_sum is None):
            raise Refused(f"{NAME}: mean and row_sum of a norm go together")

    def __repr__(self) -> str:
        return f"<Norm of {self.divisor.size} rows{', with means' if self.mean is not None else ''}>"


@dataclass(frozen=True, eq=False)
class Vectors:
    """One operand: vectors along K."""

    index: np.ndarray  #: (vectors, K) uint8; of Scores the integers
    mask: np.ndarray  #: (vectors, K) bool: kept in fp16
    value: np.ndarray  #: (vectors, K) float32: what the sparse path reads; fp16 values
    scale: np.ndarray  #: (vectors,) float64, exact
    zero: np.ndarray | None  #: (vectors,) float64


def vectors_of(tensor: KMeansTensor) -> Vectors:
    """The operand of a matrix, or of a vector, of one codebook."""
    if not isinstance(tensor, KMeansTensor):
        raise RefusedType(f"{NAME}: a KMeansTensor is needed, got {type(tensor).__name__}")
    if tensor.codebook.values.ndim != 1 or tensor.scale.dtype != np.uint16:
        raise Refused(f"{NAME}: an operand has one row of centroids and fp16 scales, got {tensor!r}")
    mask = tensor.rows(tensor.mask)
    value = tensor.rows(tensor.dequantized()).astype(np.float32)
    zero = None if tensor.zeros is None else tensor.zeros.reshape(-1).astype(np.float64)
    return Vectors(tensor.rows(), mask, value, tensor.scales.reshape(-1).astype(np.float64), zero)


def columns_under(tensor: KMeansTensor) -> Vectors:
    """The columns of a tensor whose vectors lie across the sum, as tokens do in scores x V: scale 1, no zero points."""
    if tensor.index.ndim != 2 or tensor.zero is not None:
        what = "zero points" if tensor.zero is not None else f"shape {tensor.shape}"
        raise Refused(f"{NAME}: integer x K-Means takes a matrix without zero points, got {what}")
    given = vectors_of(tensor)
    parts = (np.ascontiguousarray(part.T) for part in (given.index, given.mask, given.value))
    return Vectors(*parts, np.ones(given.index.shape[1]), None)


def scores_of(scores: Scores, arith: KllmArith, v: KMeansTensor) -> Vectors:
    """The integer operand; without fold V's one scale is in its scale."""
    k = scores.q.shape[-1]
    if scores.scale.dtype == np.float32 and arith.acc != "exact":
        raise Refused(f'{NAME}: float32 scales of scores go with acc="exact", got acc={arith.acc!r}')
    scale = scores.scale.reshape(-1).astype(np.float64)
    if not scores.fold:
        scale = joint_scale(scale, one_scale(v), arith)
    rows = scores.q.reshape(-1, k)
    return Vectors(rows, np.zeros(rows.shape, np.bool_), scores.p.reshape(-1, k).astype(np.float32), scale, None)


def one_scale(tensor: KMeansTensor) -> float:
    """The scale that all vectors share; refused if they do not (D-kllm-14)."""
    scales = np.unique(tensor.scales)
    if scales.size != 1:
        raise Refused(f"{NAME}: scores without fold need one scale for the other operand, got {scales.size}")
    return float(scales[0])


def require_operands(a: Vectors, b: Vectors, norm: Norm | None, bias: Any, integer: bool) -> np.ndarray | None:
    """The bias as float64 (N,), or None. Refuses operands that do not go together."""
    if a.index.shape[1] != b.index.shape[1]:
        raise Refused(f"{NAME}: both operands need the same K, got {a.index.shape[1]} and {b.index.shape[1]}")
    if norm is not None:
        _require_norm(norm, a, b, integer)
    if bias is None:
        return None
    values = np.asarray(bias)
    if values.dtype != np.float16 or values.shape != (b.index.shape[0],):
        raise RefusedType(f"{NAME}: bias must be float16 of shape ({b.index.shape[0]},), got {values.dtype} of shape "
                          f"{values.shape}")
    return values.astype(np.float64)


def _require_norm(norm: Norm, a: Vectors, b: Vectors, integer: bool) -> None:
    if integer or b.mask.any() or b.zero is not None:
        what = "scores" if integer else "outliers in B" if b.mask.any() else "zero points in B"
        raise Refused(f"{NAME}: {what} do not go together with a norm")
    if norm.divisor.size != a.index.shape[0]:
        raise Refused(f"{NAME}: a norm needs {a.index.shape[0]} divisors, got {norm.divisor.size}")
    if norm.row_sum is not None and norm.row_sum.shape != (b.index.shape[0],):
        raise Refused(f"{NAME}: row_sum must have shape ({b.index.shape[0]},), got {norm.row_sum.shape}")


def require_finite(a: Vectors, b: Vectors, arith: KllmArith) -> None:
    """The exact accumulator has no infinity: refuses an inlier that does not fit fp16."""
    for name, side in (("A", a), ("B", b)):
        bad = ~np.isfinite(side.value)
        if arith.acc == "exact" and bad.any():
            raise Refused(f"{NAME}: the exact accumulator needs finite operands; {name} overflows fp16"
                          f"{at(first_index(bad))}")


def require_products(products: Codebook, a: Codebook, b: Codebook) -> Codebook:
    """`products` if it has an entry for each pair of centroids."""
    if products.bits != a.bits + b.bits or products.values.ndim != 1:
        raise Refused(f"{NAME}: the product codebook needs {1 << a.bits + b.bits} entries, got shape "
                      f"{products.values.shape}")
    return products


def require_seen(seen: Any, rows: int, most: int) -> np.ndarray:
    """How much each row sees, int64 (rows,): everything if `seen` is None."""
    if seen is None:
        return np.full(rows, most, np.int64)
    counts = np.asarray(seen)
    if counts.dtype.kind not in "iu" or counts.size != rows:
        raise RefusedType(f"{NAME}: seen must be {rows} integers, got {counts.dtype} of shape {counts.shape}")
    flat = counts.reshape(-1).astype(np.int64)
    for count in flat[(flat < 0) | (flat > most)][:1]:
        require_int(int(count), 0, most, NAME, "seen")
    return flat


def rounded(x: np.ndarray, acc: str) -> np.ndarray:
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


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """r16(r32(a / b)) of float64 arrays, as a delayed division divides; r32 is one rounding of the exact quotient."""
    with np.errstate(all="ignore"):
        q = np.array(a / b, np.float64, ndmin=1)
        word = q.view(np.int64)
        tie = (word & 0x1FFF_FFFF == 0x1000_0000) & np.isfinite(q)  # midway between float32 values, as rounded here
        for where in zip(*np.nonzero(tie), strict=True):
            x, y = (abs(Fraction(float(np.broadcast_to(side, q.shape)[where]))) for side in (a, b))
            error = x / y - abs(Fraction(float(q[where])))
            word[where] += (error > 0) - (error < 0)
        return r16(q.astype(np.float32).astype(np.float64)).reshape(np.broadcast_shapes(np.shape(a), np.shape(b)))


def merge(inside: np.ndarray, scale: np.ndarray, outside: np.ndarray, arith: KllmArith, bias: np.ndarray | None = None,
          shift: np.ndarray | None = None) -> np.ndarray:
    """Y of rounding accumulators: scale the dense part, add the sparse one, subtract `shift`, add the bias.

    Each operation rounds, the last one to fp16 [kllm §III-D, Fig. 5]. All float64 that broadcast; returns float32.
    """
    terms = [outside] + ([-shift] if shift is not None else []) + ([bias] if bias is not None else [])
    with np.errstate(all="ignore"):
        total = rounded(inside * scale, arith.acc)
        for place, term in enumerate(terms):
            total = rounded(total + term, "fp16" if place == len(terms) - 1 else arith.acc)
    return fp16.canonical(total.astype(np.float32))


def mean_terms(norm: Norm) -> np.ndarray | None:
    """LayerNorm, roundings as in the datapath: r16(r16(r32(mean / std)) * R_n), (M, N); None without means."""
    if norm.mean is None or norm.row_sum is None:
        return None
    mean, divisor = (np.asarray(x, np.float64).reshape(-1, 1) for x in (norm.mean, norm.divisor))
    return r16(quotient(mean, divisor) * r16(np.asarray(norm.row_sum, np.float64)))


def zero_terms(total: np.ndarray, parts: tuple[np.ndarray, ...], za: np.ndarray, zb: np.ndarray,
               acc: str) -> np.ndarray:
    """A weighted sum corrected by zero points: - zB*SA - zA*SB + K'*zA*zB, each product and sum rounded (D-kllm-10).

    parts: SA, SB and K', the weighted sums over the marginal counts and the number of positions. All float64.
    """
    sum_a, sum_b, counted = parts
    with np.errstate(all="ignore"):
        total = rounded(total - rounded(zb * sum_a, acc), acc)
        total = rounded(total - rounded(za * sum_b, acc), acc)
        return rounded(total + rounded(rounded(counted, acc) * rounded(za * zb, acc), acc), acc)


def finish_exact(v: Fraction, bias: float | None = None, norm: tuple[float, float, float] | None = None) -> float:
    """Y of the exact accumulator: v + bias rounded once; after a norm (divisor, mean, R_n) float64 operations first.

    Returns an fp16 value, infinite where it overflows.
    """
    if norm is None:
        total = v + Fraction(bias or 0)
        value = exact.to_odd(total.numerator, 1 - total.denominator.bit_length())
    else:
        divisor, mean, row_sum = norm
        value = (float(v) - mean * row_sum) / divisor
        value = value if bias is None else value + bias
    return float(fp16.round16_of_f64(np.float64(value)))
