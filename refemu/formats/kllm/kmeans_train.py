"""Weighted one-dimensional K-Means to the last bit: integers and fractions, one rounding at the end.

Paper: [kllm §III-A, §V-A] names a weighted K-Means and no more. Decisions: D-kllm-28 (start, empty clusters, when to
stop, rounding), D-kllm-29 (whose sample weights). No bit depends on the order or the grouping of the samples.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_int
from refemu.arith.exact import steps
from refemu.formats.kllm.codebook import CLUSTER_BITS, Codebook

ONE = 1 << 24  #: the value 1 in units of a bin
FULL = 1 << 32  #: integer weight of the heaviest sample
LIMIT = 1 << 63  #: what the sum of integer weights stays below
CHUNK = 1 << 20  #: samples binned at once: their weights sum to 2**52 at most, which float64 holds

#: first centroids: from shares of equal weight, or these
Start: TypeAlias = Literal["quantile"] | Sequence[float] | np.ndarray


class Histogram:
    """Summed integer weights of fp16 samples, by value: all that training needs, so data may come in parts.

    A weight w counts as rint(w / w_max * 2**32), the quotient rounded to float64; one that gives 0 drops its sample.

    References
    ----------
    [kllm §III-A]
    """

    def __init__(self, w_max: float | None = None) -> None:
        """Begin without samples.

        Parameters
        ----------
        w_max : float, optional
            Largest weight of all samples, known beforehand; None or 0: every sample weighs 1.

        Raises
        ------
        Refused
            `w_max` is negative or not finite.
        """
        if w_max is not None and not (np.isfinite(w_max) and w_max >= 0):
            raise Refused(f"Histogram: w_max must be finite and at least 0, got {w_max}")
        self.w_max: float | None = float(w_max) if w_max else None
        self.weights: np.ndarray = np.zeros(1 << 16, np.int64)  #: by fp16 word
        self.total: int = 0  #: of all weights

    def add(self, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add samples; a call that raises changes nothing.

        Parameters
        ----------
        values : array_like of float16 or float32
            fp16 values, finite.
        weights : array_like of real numbers, shape of `values`, optional
            0 to w_max.

        Raises
        ------
        Refused
            A sample or weight is not finite, a weight out of range, a shape wrong, or the sum of weights 2**63 or more.
        RefusedType
            Another dtype.
        """
        samples = require_samples(values)
        counted = np.zeros(1 << 16, np.int64)
        weighing = None if self.w_max is None else require_weights(weights, samples.shape).ravel()
        words = fp16.bits(fp16.to_f16(samples.ravel()))
        words = np.where(words == 0x8000, np.uint16(0), words)
        for start in range(0, words.size, CHUNK):
            part = slice(start, start + CHUNK)
            counted += _bin(words[part], None if weighing is None else self._integer(weighing[part]))
        self._take(counted)

    def merge(self, other: "Histogram") -> None:
        """Take in the samples of another histogram.

        Parameters
        ----------
        other : Histogram
            Of the same w_max.

        Raises
        ------
        Refused
            Another w_max, or a sum of weights of 2**63 or more.
        """
        if other.w_max != self.w_max:
            raise Refused(f"Histogram: merge needs one w_max, got {self.w_max} and {other.w_max}")
        self._take(other.weights)

    def _integer(self, weights: np.ndarray) -> np.ndarray:
        top = float(weights.max()) if weights.size else 0.0
        if self.w_max is not None and top > self.w_max:
            raise Refused(f"Histogram: weights must be at most w_max={self.w_max}, got {top}")
        return np.rint(weights / self.w_max * FULL)

    def _take(self, counted: np.ndarray) -> None:
        total = self.total + sum_of(counted)
        if total >= LIMIT:
            raise Refused(f"Histogram: weights must sum to less than 2**63, got {total}")
        self.weights, self.total = self.weights + counted, total

    def bins(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct samples and their weights.

        Returns
        -------
        samples, weights : ndarray of int64 (D,)
            Samples in units of 2**-24, ascending.
        """
        words = np.flatnonzero(self.weights)
        values = steps(fp16.to_f32(fp16.values(words)))
        order = np.argsort(values, kind="stable")
        return values[order], self.weights[words][order]


def sum_of(weights: np.ndarray) -> int:
    """Exact sum of integers at least 0 as a Python integer."""
    return (int(integers.total(weights >> 32)) << 32) + int(integers.total(weights & 0xFFFFFFFF))


def _bin(words: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Weights per word: sums of integers below 2**53, exact in float64."""
    binned = np.bincount(words, weights, minlength=1 << 16)
    return binned.astype(np.int64) if weights is None else integers.from_float(binned)


def require_samples(values: ArrayLike) -> np.ndarray:
    """The values as float32, of any shape; rejects values that are not finite or not exact in fp16."""
    samples = fp16.require_fp16_values(values, "train", "values")
    bad = ~np.isfinite(samples)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"train: values must be finite, got {samples[index]!s}{at(index)}")
    return samples


def require_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> np.ndarray:
    """Real weights of `shape` as float64; rejects the first negative or infinite one with its index."""
    array = as_array(weights)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise RefusedType(f"train: weights must be real numbers, got dtype {array.dtype}")
    if array.shape != shape:
        raise Refused(f"train: weights must have the shape of the samples, {shape}, got {array.shape}")
    array = array.astype(np.float64)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        index = first_index(bad)
        place = index[0] if len(index) == 1 else index
        raise Refused(f"train: weight at sample {place} is {array[index]!s}")
    return array


def histogram(values: ArrayLike, weights: ArrayLike | None = None) -> Histogram:
    """The Histogram of samples that are all there; weights None or all 0: every sample weighs 1."""
    samples = require_samples(values)
    weighing = None if weights is None else require_weights(weights, samples.shape)
    collected = Histogram(None if weighing is None or not weighing.size else float(weighing.max()))
    collected.add(samples, weighing)
    return collected


@dataclass(frozen=True)
class Clusters:
    """Centroids in units of 2**-24 during training."""

    centroids: tuple[Fraction, ...]
    borders: tuple[int, ...]  #: border i = number of bins in clusters 0 to i; one fewer than centroids


def train(
    values: ArrayLike | Histogram,
    weights: ArrayLike | None = None,
    *,
    bits: int,
    init: Start = "quantile",
    max_iter: int = 300,
) -> Codebook:
    """Train a codebook by weighted K-Means on normalized samples.

    With fewer distinct samples than clusters the codebook holds the samples, the last repeated.

    Parameters
    ----------
    values : array_like of float16 or float32, or Histogram
        fp16 values, x / s of the inliers.
    weights : array_like of real numbers, shape of `values`, optional
        At least 0; None or all 0 means 1 each.
    bits : int
        Width of an index, 1 to 4.
    init : "quantile" or array_like of 2**bits fp16 values
        First centroids, strictly increasing.
    max_iter : int
        Most updates.

    Returns
    -------
    Codebook
        Centroids, ascending.

    Raises
    ------
    Refused
        There are no samples, weights are bad (their sum as integers from 2**63 on), or a parameter is out of range.
    RefusedType
        Another dtype.

    References
    ----------
    [kllm §III-A]
    """
    collected, first = prepare(values, weights, bits, init, max_iter)
    points, heavy = (array.tolist() for array in collected.bins())
    if len(points) <= 1 << bits:
        return few(points, bits)
    *_, last = iterate(points, heavy, start(points, heavy, bits, first), max_iter)
    return codebook(last.centroids, bits)


def prepare(
    values: ArrayLike | Histogram, weights: ArrayLike | None, bits: int, init: Start, max_iter: int
) -> tuple[Histogram, list[int] | None]:
    """Check the arguments of a training: the samples as a Histogram, and the given start in units of 2**-24."""
    require_int(bits, 1, CLUSTER_BITS, "train", "bits")
    require_int(max_iter, 0, 1 << 31, "train", "max_iter")
    first = None if isinstance(init, str) and init == "quantile" else _given(init, bits)
    if isinstance(values, Histogram):
        if weights is not None:
            raise Refused("train: a Histogram has its weights, got weights besides")
        collected = values
    else:
        collected = histogram(values, weights)
    if not collected.total:
        raise Refused("train: no samples")
    return collected, first


def _given(init: ArrayLike, bits: int) -> list[int]:
    if isinstance(init, str):
        raise Refused(f'train: init must be "quantile" or {1 << bits} values, got {init!r}')
    values = Codebook(bits, np.asarray(init, np.float64)).centroids
    down = values[1:] <= values[:-1]
    if values.ndim != 1 or down.any():
        raise Refused(f"train: init must be {1 << bits} strictly increasing values, got {values.tolist()}")
    return steps(values).tolist()


def few(points: Sequence[int], bits: int) -> Codebook:
    """The codebook of at most 2**bits distinct samples: they themselves, the last repeated."""
    repeated = list(points) + [points[-1]] * ((1 << bits) - len(points))
    return codebook([Fraction(point) for point in repeated], bits)


def start(points: Sequence[int], weights: Sequence[int], bits: int, initial: list[int] | None = None) -> list[Fraction]:
    """The first centroids: `initial`, or the samples in the middle of 2**bits shares of equal weight.

    Share i has its middle at the first j with 2M * (W_0 + ... + W_j) >= (2i + 1) * total; then samples are moved up,
    and from the end down, until all differ.
    """
    if initial is not None:
        return [Fraction(value) for value in initial]
    count, below = 1 << bits, list(accumulate(weights))
    chosen = [bisect_left(below, -(-(2 * i + 1) * below[-1] // (2 * count))) for i in range(count)]
    for i in range(1, count):
        chosen[i] = max(chosen[i], chosen[i - 1] + 1)
    return [Fraction(points[min(j, len(points) - count + i)]) for i, j in enumerate(chosen)]


def iterate(
    points: Sequence[int], weights: Sequence[int], first: Sequence[Fraction], max_iter: int
) -> "list[Clusters]":
    """Every state of the training, from `first` until the borders repeat or `max_iter` updates are done."""
    weight = [0, *accumulate(weights)]
    moment = [0, *accumulate(w * u for u, w in zip(points, weights, strict=True))]
    history = [Clusters(tuple(first), assign(points, first))]
    for _ in range(max_iter):
        before = history[-1]
        edges = (0, *before.borders, len(points))
        centroids = tuple(
            Fraction(moment[high] - moment[low], weight[high] - weight[low]) if high > low else old
            for low, high, old in zip(edges, edges[1:], before.centroids, strict=False)
        )
        history.append(Clusters(centroids, assign(points, centroids)))
        if history[-1].borders == before.borders:
            break
    return history


def assign(points: Sequence[int], centroids: Sequence[Fraction]) -> tuple[int, ...]:
    """Borders: a sample goes to the first cluster whose midpoint with the next is not below it."""
    return tuple(bisect_right(points, (low + high) / 2) for low, high in pairwise(centroids))


def codebook(centroids: Sequence[Fraction], bits: int) -> Codebook:
    """Centroids in units of 2**-24, each rounded once to fp16."""
    return Codebook(bits, np.array([nearest16(value / ONE) for value in centroids]))


def nearest16(value: Fraction) -> float:
    """The fp16 value nearest to an exact fraction, ties to even, a zero as +0. |value| < 65,520."""
    scaled = value * ONE
    drop = max(int(abs(scaled)).bit_length() - 11, 0)
    return float(round(scaled / (1 << drop)) << drop) / ONE
