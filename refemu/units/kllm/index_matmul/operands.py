"""Operands of the index MatMul: vectors along K, scores, statistics of a norm, and the checks of all of them.

Paper: [kllm §III-B, §III-D, Fig. 5].
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, reject, require_int
from refemu.formats import Codebook, KllmArith, KMeansTensor
from refemu.units.declaration import decides
from refemu.units.kllm.index_matmul.arithmetic import joint_scale
from refemu.units.kllm.index_norm import Divisors

NAME = "index_matmul"

Dequantize = Callable[[KMeansTensor], np.ndarray]  #: reads the values of a tensor as float16


@dataclass(frozen=True, eq=False)
class Scores:
    """Integer operand of an integer x K-Means MatMul, row by row: output of the score quantizer, and its input."""

    q: np.ndarray  #: uint8 (..., K), integers
    scale: np.ndarray  #: float16 (...), or float32 with an exact accumulator: value of an integer 1
    p: np.ndarray  #: float16 (..., K): scores before quantization and fold, for outliers of the other operand
    fold: bool = True  #: the other operand's scales are in q; False: it has one scale, which joins `scale`

    def __post_init__(self) -> None:
        if self.q.dtype != np.uint8 or self.p.dtype != np.float16 or self.scale.dtype not in (np.float16, np.float32):
            raise RefusedType(
                f"{NAME}: scores need q uint8, p float16, scale float16 or float32, got {self.q.dtype}, "
                f"{self.p.dtype}, {self.scale.dtype}"
            )
        if self.q.ndim == 0 or self.q.shape != self.p.shape or self.scale.shape != self.q.shape[:-1]:
            raise Refused(
                f"{NAME}: scores need q and p of one shape and a scale per row, got {self.q.shape}, "
                f"{self.p.shape}, {self.scale.shape}"
            )

    def __repr__(self) -> str:
        return f"<Scores {self.q.shape}>"


@dataclass(frozen=True, eq=False)
class Norm:
    """Statistics of a norm before the MatMul, applied after it: divisors; for LayerNorm means and sums of weights.

    Operands that index_norm divided are wires [kllm Fig. 4]; the MatMul divides missing ones itself.
    """

    divisor: np.ndarray  #: rms or standard deviation of each row of A, float32 or float64, (...), above 0
    mean: np.ndarray | None = None  #: LayerNorm: mean of each row, the same shape
    row_sum: np.ndarray | None = None  #: LayerNorm: R_n = s_n * sum of centroids of column n, (N,)
    folded: np.ndarray | None = None  #: float16, shape of `divisor`: divided scale of each row
    divided: np.ndarray | None = None  #: float16 (..., 2**nB): divided centroids of B
    shift: np.ndarray | None = None  #: float16, shape of `divisor`: LayerNorm's mean over deviation

    @classmethod
    def of(cls, divisors: Divisors, row_sum: np.ndarray | None = None) -> "Norm":
        """Connect the outputs of `index_norm.divisors`; row_sum: LayerNorm's sums over the weights."""
        wires = divisors.folded, divisors.divided, divisors.shift
        return cls(divisors.divisor, divisors.mean, row_sum, *wires)

    def __post_init__(self) -> None:
        self._require_wires()
        divisor = np.asarray(self.divisor, np.float64)
        reject(~(np.isfinite(divisor) & (divisor > 0)), f"{NAME}: norm divisor must be positive and finite", divisor)
        if (self.mean is None) != (self.row_sum is None):
            raise Refused(f"{NAME}: mean and row_sum of a norm must both be given or both be None, got one")

    def _require_wires(self) -> None:
        shape = np.shape(self.divisor)
        for name, wire in (("folded", self.folded), ("divided", self.divided), ("shift", self.shift)):
            if wire is None:
                continue
            lead = wire.shape[:-1] if name == "divided" else wire.shape
            if wire.dtype != np.float16 or lead != shape:
                raise RefusedType(
                    f"{NAME}: {name} of a norm must be float16 for divisors of shape {shape}, got {wire.dtype} of "
                    f"shape {wire.shape}"
                )

    def __repr__(self) -> str:
        return f"<Norm of {self.divisor.size} rows{', with means' if self.mean is not None else ''}>"


@dataclass(frozen=True, eq=False)
class Vectors:
    """One operand: vectors along K. Arrays may be views."""

    index: np.ndarray  #: (vectors, K) uint8; of Scores the integers
    mask: np.ndarray  #: (vectors, K) bool: outliers, stored in fp16
    scale: np.ndarray  #: (vectors,) float64, exact
    zero: np.ndarray | None  #: (vectors,) float64
    values: Callable[[], np.ndarray]  #: makes `value`: a whole weight is rarely needed

    @cached_property
    def value(self) -> np.ndarray:
        """(vectors, K) float32: the fp16 values that the sparse path reads."""
        return self.values()


def vectors_of(tensor: KMeansTensor, dequantize: Dequantize = KMeansTensor.dequantize_fp16) -> Vectors:
    """The operand of a matrix, or of a vector, with one codebook. dequantize: reads its values as fp16."""
    if not isinstance(tensor, KMeansTensor):
        raise RefusedType(f"{NAME}: an operand must be a KMeansTensor, got {type(tensor).__name__}")
    if tensor.codebook.values.ndim != 1 or tensor.scale.dtype != np.uint16:
        raise Refused(f"{NAME}: an operand must have one row of centroids and fp16 scales, got {tensor!r}")
    zero = None if tensor.zeros is None else tensor.zeros.reshape(-1).astype(np.float64)
    return Vectors(
        _along(tensor, tensor.index),
        _along(tensor, tensor.mask),
        tensor.scales.reshape(-1).astype(np.float64),
        zero,
        lambda: fp16.to_f32(_along(tensor, dequantize(tensor))),
    )


def _along(tensor: KMeansTensor, array: np.ndarray) -> np.ndarray:
    """An array of the tensor's shape as (vectors, K), not copied if it is a matrix."""
    moved = array if tensor.axis == array.ndim - 1 else np.moveaxis(array, tensor.axis, -1)
    return moved.reshape(-1, tensor.length)


def columns_under(tensor: KMeansTensor, dequantize: Dequantize = KMeansTensor.dequantize_fp16) -> Vectors:
    """Columns of a tensor whose vectors run across the sum, like tokens in scores x V: scale 1, no zero points."""
    if tensor.index.ndim != 2 or tensor.zero is not None:
        what = "zero points" if tensor.zero is not None else f"shape {tensor.shape}"
        raise Refused(f"{NAME}: integer x K-Means needs a matrix without zero points, got {what}")
    rows = vectors_of(tensor, dequantize)
    return Vectors(rows.index.T, rows.mask.T, np.ones(rows.index.shape[1]), None, lambda: rows.value.T)


def scores_of(scores: Scores, arith: KllmArith, v: KMeansTensor) -> Vectors:
    """The integer operand; without fold its scale includes the one scale of V."""
    k = scores.q.shape[-1]
    if scores.scale.dtype == np.float32 and arith.acc != "exact":
        raise Refused(f'{NAME}: float32 scales of scores need acc="exact", got acc={arith.acc!r}')
    scale = scores.scale.reshape(-1).astype(np.float64)
    if not scores.fold:
        scale = joint_scale(scale, one_scale(v), arith)
    rows = scores.q.reshape(-1, k)
    p = scores.p.reshape(-1, k).astype(np.float32)
    return Vectors(rows, np.zeros(rows.shape, np.bool_), scale, None, lambda: p)


@decides("D-kllm-14")
def one_scale(tensor: KMeansTensor) -> float:
    """The scale that all vectors share; raises if they do not."""
    scales = np.unique(tensor.scales)
    if scales.size != 1:
        raise Refused(f"{NAME}: scores without fold need one scale for the other operand, got {scales.size}")
    return float(scales[0])


def require_operands(
    a: Vectors, b: Vectors, norm: Norm | None, bias: Any, integer: bool, entries: int
) -> np.ndarray | None:
    """The bias as float64 (N,), or None; rejects operands that do not match. entries: centroids of B."""
    if a.index.shape[1] != b.index.shape[1]:
        raise Refused(f"{NAME}: both operands need the same K, got {a.index.shape[1]} and {b.index.shape[1]}")
    if norm is not None:
        _require_norm(norm, a, b, integer, entries)
    if bias is None:
        return None
    values = np.asarray(bias)
    if values.dtype != np.float16 or values.shape != (b.index.shape[0],):
        raise RefusedType(
            f"{NAME}: bias must be float16 of shape ({b.index.shape[0]},), got {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.float64)


def _require_norm(norm: Norm, a: Vectors, b: Vectors, integer: bool, entries: int) -> None:
    if norm.divided is not None and norm.divided.shape[-1] != entries:
        raise Refused(f"{NAME}: a norm needs {entries} divided centroids of B, got {norm.divided.shape[-1]}")
    if integer or b.mask.any() or b.zero is not None:
        what = "scores" if integer else "outliers in B" if b.mask.any() else "zero points in B"
        raise Refused(f"{NAME}: a norm excludes {what}")
    if norm.divisor.size != a.index.shape[0]:
        raise Refused(f"{NAME}: a norm needs {a.index.shape[0]} divisors, got {norm.divisor.size}")
    if norm.row_sum is not None and norm.row_sum.shape != (b.index.shape[0],):
        raise Refused(f"{NAME}: row_sum must have shape ({b.index.shape[0]},), got {norm.row_sum.shape}")


def require_finite(a: Vectors, b: Vectors, arith: KllmArith, centroids: tuple[np.ndarray, np.ndarray]) -> None:
    """Reject an inlier that does not fit fp16: the exact accumulator has no infinity."""
    for name, side, entries in zip("AB", (a, b), centroids, strict=True):
        largest = float(np.abs(entries).max()) * float(side.scale.max(initial=0))
        if arith.acc == "exact" and (side.zero is not None or largest >= fp16.OVERFLOW):
            rule = f"{NAME}: the exact accumulator needs finite operands; {name} overflows fp16"
            reject(~np.isfinite(side.value), rule, "", "")


def require_products(products: Codebook, a: Codebook, b: Codebook) -> Codebook:
    """`products` if it has an entry for each pair of centroids."""
    if products.bits != a.bits + b.bits or products.values.ndim != 1:
        raise Refused(
            f"{NAME}: the product codebook needs {1 << a.bits + b.bits} entries, got shape {products.values.shape}"
        )
    return products


def require_seen(seen: Any, rows: int, most: int) -> np.ndarray:
    """Columns or positions that each row sees, int64 (rows,): all of them if `seen` is None."""
    if seen is None:
        return np.full(rows, most, np.int64)
    counts = np.asarray(seen)
    if counts.dtype.kind not in "iu" or counts.size != rows:
        raise RefusedType(f"{NAME}: seen must be {rows} integers, got {counts.dtype} of shape {counts.shape}")
    flat = counts.reshape(-1).astype(np.int64)
    for count in flat[(flat < 0) | (flat > most)][:1]:
        require_int(int(count), 0, most, NAME, "seen")
    return flat
