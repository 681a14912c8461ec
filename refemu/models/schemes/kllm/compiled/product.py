"""Products of few rows with the right operands of all heads, by the kernels of the index MatMul.

Paper: [kllm §III-B, §III-D]. The arithmetic is that of preset `paper`. Nothing is checked; overflows become infinity or
NaN.
"""

from typing import NamedTuple

import numpy as np

from refemu.arith.fp16_compiled import plain
from refemu.arith.panels import peak
from refemu.models.schemes.kllm.compiled.heads import kmeans_heads
from refemu.units.kllm.kernels.index_matmul import EXACT, SAFE


class Rows(NamedTuple):
    """The left operand: indices or integers, one row per row of the product, those of the first head first."""

    codes: np.ndarray  #: uint8 (M, K)
    mask: np.ndarray  #: uint8 (M, K), 1 at outliers
    value: np.ndarray  #: float32 (M, K), read by the sparse path
    scale: np.ndarray  #: float64 (M,)


class Columns(NamedTuple):
    """The right operand of every head, by position of the sum, as in `index_matmul_jit.Prepared`."""

    codes: np.ndarray  #: uint8 (H, K + 1, N), zeros last
    starts: np.ndarray  #: int64 (H, K + 1): outliers of position k
    places: np.ndarray  #: int64 (H, any): their columns, ascending
    values: np.ndarray  #: float32 (H, any)
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
) -> None:
    """out (M, N) <- A times B, fp16 values in float32.

    centroids: of B, float32 (1, entries). limits: int64 (M / H, 2), positions and columns of a head's rows; `out` is
    unchanged beyond them.
    """
    most = products.largest * a.codes.shape[1]
    entries = products.entries, products.size, products.integers, most <= EXACT and products.peak * most < SAFE
    kmeans_heads(tuple(a), tuple(b), *entries, centroids, limits, out)


def widened(word: int) -> float:
    """The value of a positive fp16 word."""
    return float(np.uint16(word).view(np.float16))
