"""Products of few rows with prepared right operands, by the kernels of the index MatMul.

Paper: [kllm §III-B, §III-D]. The arithmetic is that of preset `paper`. Nothing is checked; overflows become infinity or
NaN.
"""

from typing import NamedTuple

import numpy as np

from refemu.arith import kernels
from refemu.arith.fp16_compiled import plain
from refemu.arith.panels import peak
from refemu.units.kllm.kernels.index_matmul import EXACT, SAFE, kmeans_dense, kmeans_merge, kmeans_sparse

NO_COUNTS, NO_UNITS = np.zeros((0, 0, 0), np.int32), np.zeros(0, np.int64)
NO_TOTALS, NO_SHIFT, NO_BIAS = np.zeros((0, 0), np.int64), np.zeros((0, 0)), np.zeros(0)
FP16 = kernels.ACCUMULATORS["fp16"]


class Rows(NamedTuple):
    """The left operand: indices or integers, one row per row of the product."""

    codes: np.ndarray  #: uint8 (M, K)
    mask: np.ndarray  #: uint8 (M, K), 1 at outliers
    value: np.ndarray  #: float32 (M, K), read by the sparse path
    scale: np.ndarray  #: float64 (M,)


class Columns(NamedTuple):
    """The right operand, by position of the sum, as in `index_matmul_jit.Prepared`."""

    codes: np.ndarray  #: uint8 (K + 1, N), zeros last
    starts: np.ndarray  #: int64 (K + 1,): outliers of position k
    places: np.ndarray  #: int64: their columns, ascending
    values: np.ndarray  #: float32
    scale: np.ndarray  #: float64 (N,)
    scale32: np.ndarray  #: float32 (N,), equal values


class Table(NamedTuple):
    """Entries that are multiplied by counts."""

    entries: np.ndarray  #: float32
    size: int  #: number of entries per index of B
    peak: float  #: largest magnitude
    integers: int  #: 1 if A has integers, which count that many times, else 0
    largest: int  #: largest count of a position


def table(entries: np.ndarray, bits: int, largest: int = 0) -> Table:
    """The table of float32 entries for a B of `bits` bits. largest: the largest integer of A; 0 if A has indices."""
    return Table(plain(entries), 1 << bits, peak(entries), int(largest > 0), max(largest, 1))


def multiply(
    a: Rows,
    b: Columns,
    centroids: np.ndarray,
    products: Table,
    limits: np.ndarray,
    out: np.ndarray,
    bias: np.ndarray = NO_BIAS,
) -> None:
    """out (M, N) <- A times B, fp16 values in float32.

    centroids: of B, float32 (1, entries), divided if a norm is delayed. limits: int64 (M, 2), positions and columns
    of a row; `out` is unchanged beyond them. bias: float64 (N,), or (0,) for none.
    """
    inside, outside = np.zeros(out.shape, np.float32), np.empty(out.shape, np.float32)
    most = products.largest * a.codes.shape[1]
    bounded = most <= EXACT and products.peak * most < SAFE
    left, right = (a.codes, a.mask, products.integers), (b.codes, b.starts, b.places)
    entries, wanted = (products.entries, products.size), (inside, NO_COUNTS, NO_UNITS, NO_TOTALS)
    kmeans_dense(*left, *right, limits, *entries, FP16, bounded, True, *wanted)
    kmeans_sparse(a.mask, a.value, b.codes, b.scale32, centroids, b.starts, b.places, b.values, limits, FP16, outside)
    kmeans_merge(inside, a.scale, b.scale, outside, NO_SHIFT, bias, True, True, limits, out)


def widened(word: int) -> float:
    """The value of a positive fp16 word."""
    return float(np.uint16(word).view(np.float16))
