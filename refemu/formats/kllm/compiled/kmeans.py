"""Compiled form of `KMeans.encode` and `KMeansTensor.dequantize_fp16`: equal results. Read kmeans.py first.

Paper: [kllm §III-A, §IV-A]. An fp16 word is compared as an integer key; along the keys the index changes at few places,
which are found once per codebook from the readable rule and moved, exactly, to the scale of each vector. Zero points
and reciprocals take the readable definition.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import as_array
from refemu.arith.fp16_compiled import holds_fp16, plain
from refemu.arith.jit import callee, kernel
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans import Frame, KMeans
from refemu.formats.kllm.kmeans_nearest import first_alike, nearest_normalized, neighbours
from refemu.formats.kllm.kmeans_outliers import Thresholds
from refemu.formats.kllm.kmeans_tensor import KMeansTensor

ONE_KEY = 0x3C00  #: order key of 1, the largest |x^|
NEVER = 0x7FFF  #: a border key that no key exceeds
BLOCK = 4096  # elements compared with all places before the next: they stay in the first-level cache


def encode(fmt: KMeans, x: ArrayLike, axis: int = -1) -> KMeansTensor:
    """`fmt.encode(x, axis)`."""
    array = as_array(x)
    if fmt.zero_point or fmt.arith.normalize == "reciprocal" or not _is_plain(array, axis):
        return fmt.encode(x, axis)
    moved = np.moveaxis(array, axis, -1)
    words = np.ascontiguousarray(fp16.narrow(moved)).view(np.uint16).reshape(-1, moved.shape[-1])
    keys = np.empty(words.shape, np.int16)
    if not _keys(words.reshape(-1), keys.reshape(-1)):
        return fmt.encode(x, axis)  # raises for NaN and infinity
    mask, scale = _outliers(fmt, keys)
    index = _indices(words, mask, scale, fmt.codebook, fmt.arith)
    frame = Frame(scale.astype(np.float32).reshape(moved.shape[:-1]))
    return fmt.tensor(index.reshape(moved.shape), frame, mask.reshape(moved.shape), words[mask], axis)


def _is_plain(array: np.ndarray, axis: int) -> bool:
    """Whether the kernels can take `array`; if not, the readable form takes or rejects it."""
    fits = isinstance(axis, int | np.integer) and array.ndim > 0 and -array.ndim <= axis < array.ndim and array.size > 0
    return fits and (array.dtype == np.float16 or (array.dtype == np.float32 and holds_fp16(array)))


def _outliers(fmt: KMeans, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mask (V, N) and scales, float64 (V,), of vectors given by their keys."""
    if isinstance(fmt.outliers, Thresholds):
        mask = (keys > _key(fmt.outliers.hi)) | (keys < _key(fmt.outliers.lo))
        return mask, np.full(keys.shape[0], fmt.outliers.scale)
    mask = np.zeros(keys.shape, np.bool_)
    if fmt.outliers is None or not fmt.outliers.require(keys.shape[1]):
        largest = np.maximum(keys.max(axis=1), -keys.min(axis=1))
    else:
        largest = np.empty(keys.shape[0], np.int16)
        _select(keys, fmt.outliers.count(keys.shape[1]), mask, largest, fmt.outlier_rank(keys.shape[1]) > 0)
    scale = fp16.values(largest.view(np.uint16)).astype(np.float64)
    return mask, np.where(scale == 0, 1.0, scale)


def indices(words: np.ndarray, scale: np.ndarray, mask: np.ndarray, codebook: Codebook, arith: KllmArith) -> np.ndarray:
    """Indices of vectors: uint8 (V, N), 0 where `mask`.

    words: uint16 (V, N), fp16 patterns, finite, |x / s| at most 1. scale: uint16 (V,), positive. mask: bool (V, N).
    codebook: one that can encode. arith: dividing, or not normalizing.
    """
    return _indices(plain(words), mask, fp16.values(scale).astype(np.float64), codebook, arith)


def _indices(
    words: np.ndarray, mask: np.ndarray, scale: np.ndarray, codebook: Codebook, arith: KllmArith
) -> np.ndarray:
    table = places(codebook, arith)
    index = np.empty(words.shape, np.uint8)
    if table.counts:
        _count(words, plain(mask), table.keys(scale), np.uint8(table.first), index)
    else:
        _classify(words, plain(mask), table.keys(scale), table.steps, table.first, index)
    return index


@dataclass(frozen=True, eq=False)
class Places:
    """Where the index changes along ascending x^ (or x / s): an index is `first` plus the steps passed before."""

    first: int
    borders: np.ndarray  #: float64 (B,), exact
    closed: np.ndarray  #: bool (B,): whether a value on the border is beyond it
    steps: np.ndarray  #: int16, (B,) and up to a multiple of 16 ones that are never passed

    @functools.cached_property
    def counts(self) -> bool:
        """Whether an index is `first` plus the number of borders passed, and those fill one vector of 16."""
        return self.steps.size == 16 and bool((self.steps == 1).all())

    def keys(self, scale: np.ndarray) -> np.ndarray:
        """int16 (V, B'): largest key of a value x before the border, for float64 scales (V,)."""
        border = scale[:, None] * self.borders  # at most 53 bits: exact
        near = fp16.narrow(border)
        key = fp16.order_key(near)
        down, up = near.astype(np.float64) > border, near.astype(np.float64) < border
        keys = np.full((scale.size, self.steps.size), NEVER, np.int16)
        keys[:, : self.borders.size] = np.where(self.closed, key + up - 1, key - down)
        return keys


@functools.lru_cache(maxsize=4096)
def places(codebook: Codebook, arith: KllmArith) -> Places:
    """The places of a codebook, for every scale: from the midpoints, or by asking the readable rule for every x^."""
    if arith.normalize == "none":
        alike = first_alike(codebook).astype(np.int16)
        borders = neighbours(codebook) / 2
        return _places(0, borders, np.full(borders.size, arith.tie == "high"), np.diff(alike))
    key = np.arange(-ONE_KEY, ONE_KEY + 1)
    word = np.where(key < 0, 0x8000 - key, key)
    x = fp16.to_f32(fp16.values(word))
    index = nearest_normalized(x, codebook, arith).astype(np.int16)
    at = np.flatnonzero(np.diff(index)) + 1
    middle = (x[at - 1].astype(np.float64) + x[at]) / 2
    return _places(int(index[0]), middle, word[at] % 2 == 0, np.diff(index)[at - 1])  # a midpoint rounds to even


def _places(first: int, borders: np.ndarray, closed: np.ndarray, steps: np.ndarray) -> Places:
    return Places(first, borders, closed, np.append(steps, np.ones(-steps.size % 16, np.int16)))


def _key(value: float) -> int:
    return int(fp16.order_key(fp16.narrow(np.asarray(value))))


def dequantized(tensor: KMeansTensor) -> np.ndarray:
    """`tensor.dequantize_fp16()`: one table of 2**bits words per vector, then a look-up per element."""
    rows = tensor.rows()
    centroids = tensor.codebook.centroids.astype(np.float64).reshape(-1, 1 << tensor.bits)
    if tensor.zeros is not None:
        centroids = centroids - tensor.zeros.astype(np.float64).reshape(-1, 1)
    table = fp16.narrow(tensor.scales.astype(np.float64).reshape(-1, 1) * centroids).view(np.uint16)
    words = np.empty(rows.shape, np.uint16)
    _look_up(rows, tensor.rows(tensor.mask), plain(table), tensor.outlier, words)
    moved = words.view(np.float16).reshape(*tensor.vectors, tensor.length)
    return np.ascontiguousarray(np.moveaxis(moved, -1, tensor.axis))


@kernel
def _keys(words, keys):  # type: ignore[no-untyped-def]
    """Order keys of fp16 words; whether all are finite."""
    top = np.int64(0)
    for i in range(words.size):
        word = np.int64(words[i])
        magnitude, sign = word & 0x7FFF, word >> 15
        keys[i] = (magnitude ^ -sign) + sign
        top = max(top, magnitude)
    return top < 0x7C00


@kernel
def _classify(words, mask, borders, steps, first, index):  # type: ignore[no-untyped-def]
    """index <- first + the steps whose border key is below, 0 at outliers; borders (V, a multiple of 16)."""
    keys, sums = np.empty(BLOCK, np.int16), np.empty(BLOCK, np.int16)
    for v in range(words.shape[0]):
        for start in range(0, words.shape[1], BLOCK):
            row, masked, out = words[v, start : start + BLOCK], mask[v, start : start + BLOCK], index[v, start:]
            _keys(row, keys)
            for n in range(row.size):
                sums[n] = first
            for j in range(0, steps.size, 8):
                _pass(keys[: row.size], borders[v, j : j + 8], steps[j : j + 8], sums)
            for n in range(row.size):
                out[n] = sums[n] & (np.int16(masked[n]) - 1)


@kernel
def _count(words, mask, borders, first, index):  # type: ignore[no-untyped-def]
    """`_classify` for 16 ascending borders whose steps are 1: four comparisons among 15 and one with the last.

    The border to compare with next is chosen by the answers so far, so that no memory is read.
    """
    for v in range(words.shape[0]):
        row, masked, out, border = words[v], mask[v], index[v], borders[v]
        b0, b1, b2, b3 = border[0], border[1], border[2], border[3]
        b4, b5, b6, b7 = border[4], border[5], border[6], border[7]
        b8, b9, b10, b11 = border[8], border[9], border[10], border[11]
        b12, b13, b14, b15 = border[12], border[13], border[14], border[15]
        for n in range(row.size):
            word = np.int16(row[n])
            sign = np.int16(word >> np.int16(15))
            x = np.int16(np.int16(np.int16(word & np.int16(0x7FFF)) ^ sign) - sign)
            p = x > b7
            c0, c1, c2, c3 = b8 if p else b0, b9 if p else b1, b10 if p else b2, b11 if p else b3
            c4, c5, c6 = b12 if p else b4, b13 if p else b5, b14 if p else b6
            q = x > c3
            d0, d1, d2 = c4 if q else c0, c5 if q else c1, c6 if q else c2
            r = x > d1
            s = x > (d2 if r else d0)
            high = np.uint8(np.uint8(np.uint8(p) << np.uint8(3)) | np.uint8(np.uint8(q) << np.uint8(2)))
            low = np.uint8(np.uint8(np.uint8(r) << np.uint8(1)) | np.uint8(s))
            place = np.uint8(np.uint8(first + np.uint8(high | low)) + np.uint8(x > b15))
            out[n] = np.uint8(0) if masked[n] else place


@kernel
def _pass(row, borders, steps, sums):  # type: ignore[no-untyped-def]
    """Eight borders in one sweep."""
    b0, b1, b2, b3 = borders[0], borders[1], borders[2], borders[3]
    b4, b5, b6, b7 = borders[4], borders[5], borders[6], borders[7]
    s0, s1, s2, s3, s4, s5, s6, s7 = (steps[0], steps[1], steps[2], steps[3], steps[4], steps[5], steps[6], steps[7])
    for n in range(row.size):
        x = row[n]
        low = (s0 & -np.int16(x > b0)) + (s1 & -np.int16(x > b1)) + (s2 & -np.int16(x > b2)) + (s3 & -np.int16(x > b3))
        high = (s4 & -np.int16(x > b4)) + (s5 & -np.int16(x > b5)) + (s6 & -np.int16(x > b6)) + (s7 & -np.int16(x > b7))
        sums[n] += low + high


@kernel
def _select(keys, k, mask, largest, of_outliers):  # type: ignore[no-untyped-def]
    """mask <- the k largest and k smallest of every row, by the order of `TopK.mask`; largest <- inlier magnitude.

    of_outliers: largest <- the larger magnitude of the k-th largest and the k-th smallest instead.
    """
    counts = np.empty(256, np.int64)
    for v in range(keys.shape[0]):
        row, marked = keys[v], mask[v]
        high, of_high = _ranked(row, counts, k, np.int64(1))
        low, of_low = _ranked(row, counts, k, np.int64(-1))
        for n in range(row.size):
            marked[n] = (row[n] > high) | (row[n] < low)
        n = 0
        while of_high > 0:
            if row[n] == high:
                marked[n] = True
                of_high -= 1
            n += 1
        n = 0
        while of_low > 0:
            odd = min(n ^ 1, row.size - 1)  # the right one of a pair first
            if row[odd] == low:
                marked[odd] = True
                of_low -= 1
            n += 1
        top = max(abs(high), abs(low)) * np.int64(of_outliers)
        for n in range(row.size):
            top = max(top, abs(np.int64(row[n])) * np.int64(not marked[n]))
        largest[v] = top


@callee
def _ranked(row, counts, k, sign):  # type: ignore[no-untyped-def]
    """The k-th largest key times `sign`, times `sign`, and how many of its equals are among the k largest."""
    base, left = np.int64(0), np.int64(k)
    for shift in range(8, -1, -8):
        counts[:] = 0
        for n in range(row.size):
            place = (sign * np.int64(row[n]) + 0x8000 - base) >> shift
            if 0 <= place < 256:
                counts[place] += 1
        digit = 255
        while counts[digit] < left:
            left -= counts[digit]
            digit -= 1
        base += digit << shift
    return sign * (base - 0x8000), left


@kernel
def _look_up(index, mask, table, outlier, words):  # type: ignore[no-untyped-def]
    """words <- the entry of each index in its row of `table`, or the next outlier."""
    met = np.int64(0)
    for v in range(index.shape[0]):
        for n in range(index.shape[1]):
            words[v, n] = table[v, index[v, n]]
        for n in range(index.shape[1]):
            if mask[v, n]:
                words[v, n] = outlier[met]
                met += 1
