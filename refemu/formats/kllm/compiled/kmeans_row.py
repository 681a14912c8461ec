"""Encoding of one vector in one kernel, for decode steps, and its values as FP16.

Paper: [kllm §III-A, §IV-A, §IV-C]. What does not depend on the vector is made once, in an `Encoder`. Nothing that a
decoder made itself is checked again, but whether it is finite.
"""

from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.scalars import narrow, round16, round16_of_f64, widen
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled import kmeans as kmeans_compiled
from refemu.formats.kllm.kmeans import KMeans
from refemu.formats.kllm.kmeans_outliers import Thresholds
from refemu.formats.kllm.kmeans_tensor import KMeansTensor

ONE = 0x3C00  #: the scale of a vector of zeros (D-kllm-11)
Parts = tuple[int, bool, int, int, int, np.ndarray, np.ndarray, np.ndarray, int, np.ndarray]


class Row(NamedTuple):
    """One encoded vector, arrays (1, N)."""

    codes: np.ndarray  #: uint8, indices, 0 at outliers
    mask: np.ndarray  #: bool
    word: np.ndarray  #: uint16, fp16 patterns of outliers, 0 elsewhere
    value: np.ndarray  #: float32, what dequantizing gives
    scale: int  #: fp16 pattern
    outliers: int

    def tensor(self, codebook: Codebook) -> KMeansTensor:
        """The vector as `KMeans.encode` returns it. codebook: of the format that encoded it."""
        return KMeansTensor(codebook, self.codes, np.array([self.scale], np.uint16), self.mask, self.word[self.mask])


class Encoder:
    """Vectors of one length to one format."""

    def __init__(self, fmt: KMeans, size: int) -> None:
        """fmt: one that `is_plain` takes. Rejects more outliers than vectors of `size` values have."""
        places = kmeans_compiled.places(fmt.codebook, fmt.arith)
        count = low = high = fixed = 0
        if isinstance(fmt.outliers, Thresholds):
            low, high, fixed = (
                int(fp16.order_key(fp16.narrow(np.asarray(value))))
                for value in (fmt.outliers.lo, fmt.outliers.hi, fmt.outliers.scale)
            )
        elif fmt.outliers is not None:
            count = fmt.outliers.require(size)
        steps = places.steps[: places.borders.size]
        self.centroids: np.ndarray = fmt.codebook.centroids.copy()  #: float32, of a type that kernels take
        borders, closed = places.borders.copy(), places.closed.copy()
        ends = low, high, fixed, borders, closed
        self._parts: Parts = (count, fmt.outlier_rank(size) > 0, *ends, steps.copy(), places.first, self.centroids)

    def encode(self, x: np.ndarray) -> Row | None:
        """x: float32 (1, N), fp16 values. None where one is not finite."""
        index, mask = np.empty(x.shape, np.uint8), np.empty(x.shape, np.bool_)
        word, value = np.empty(x.shape, np.uint16), np.empty(x.shape, np.float32)
        scale, outliers = _encode(x, *self._parts, index, mask, word, value)
        return None if outliers < 0 else Row(index, mask, word, value, scale, outliers)


def is_plain(fmt: KMeans) -> bool:
    """Whether the kernel has all that the format asks for."""
    return not fmt.zero_point and fmt.arith.normalize != "reciprocal"


@kernel
def _encode(  # type: ignore[no-untyped-def]
    x, k, of_outliers, low, high, fixed, borders, closed, steps, first, centroids, index, mask, word, value
):
    """Fills index, mask, word, value. Returns the word of the scale, and how many outliers, -1 for x not finite."""
    keys, sums = np.empty(x.shape, np.int16), np.empty(x.shape[1], np.int16)
    row, limit = keys[0], np.empty(1, np.int16)
    for n in range(row.size):
        word[0, n] = narrow(x[0, n])
    if not kmeans_compiled._keys(word[0], row):
        return np.int64(0), np.int64(-1)
    largest = np.int64(fixed)
    if fixed > 0:
        for n in range(row.size):
            mask[0, n] = (row[n] > high) | (row[n] < low)
    else:
        kmeans_compiled._select(keys, k, mask, limit, of_outliers)
        largest = np.int64(limit[0])
    if largest == 0:
        largest = np.int64(ONE)
    scale = np.float32(widen(np.uint16(largest)))
    for n in range(row.size):
        sums[n] = first
    for j in range(borders.size):
        _pass(row, _border(np.float64(scale) * borders[j], closed[j]), steps[j], sums)
    return largest, _finish(x[0], sums, mask[0], scale, centroids, index[0], word[0], value[0])


@kernel
def _border(exact, closed):  # type: ignore[no-untyped-def]
    """`Places.keys` of one border: the largest key of a value before it."""
    near = np.float32(round16_of_f64(exact))
    word = np.int64(narrow(near))
    sign = word >> 15
    key = ((word & 0x7FFF) ^ -sign) + sign
    if closed:
        return np.int16(key + np.int64(np.float64(near) < exact) - 1)
    return np.int16(key - np.int64(np.float64(near) > exact))


@kernel
def _pass(row, border, step, sums):  # type: ignore[no-untyped-def]
    for n in range(row.size):
        sums[n] += np.int16(step & -np.int16(row[n] > border))


@callee
def _finish(x, sums, mask, scale, centroids, index, word, value):  # type: ignore[no-untyped-def]
    """Indices, words of outliers and values; how many outliers there are."""
    table, outliers = np.empty(centroids.size, np.float32), np.int64(0)
    for i in range(table.size):
        table[i] = round16(scale * centroids[i])
    for n in range(x.size):
        inlier = np.int64(not mask[n])
        outliers += 1 - inlier
        index[n] = np.uint8(np.int64(sums[n]) * inlier)
        word[n] = np.uint16(np.int64(word[n]) * (1 - inlier))
        value[n] = table[index[n]]
    for n in range(x.size):
        if mask[n]:
            value[n] = x[n]
    return outliers
