"""The K-Means format: indices into a shared codebook, a scale per vector, outliers kept in fp16.

Paper: [kllm §II-A, Eq. (1), §III-A, §V-A]. Decisions: D-kllm-9 (scale), D-kllm-10 (zero points), D-kllm-11 (scale of
zeros), D-kllm-27 (NaN and infinity are refused), D-kllm-30 (static scale).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, require_choice
from refemu.arith.records import parameters
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_nearest import nearest, normalized
from refemu.formats.kmeans_outliers import Thresholds, TopK, require_values
from refemu.formats.kmeans_tensor import KMeansTensor

__all__ = ["Codebook", "KMeans", "KMeansTensor", "Thresholds", "TopK"]

Outliers = TopK | Thresholds | None
SCALES = ("inlier", "outlier")  #: what the scale is taken from (D-kllm-9)


@dataclass(frozen=True)
class Frame:
    """Where the values of every vector lie: scales, and offsets and zero points if there are any."""

    scale: np.ndarray  #: fp16-valued float32, the shape of the vectors; so are the others
    offset: np.ndarray | None = None
    zero: np.ndarray | None = None


@parameters
class KMeans:
    """Every inlier becomes the index of the centroid nearest to x / s; s is the largest inlier magnitude.

    With `scale="outlier"` s is the larger magnitude of the two values that bound the inliers, the k-th largest and the
    k-th smallest; where k is 0 it stays the largest inlier. With thresholds s is max(|hi|, |lo|), whatever the vector
    holds (D-kllm-30). A scale of 0 becomes 1 (D-kllm-11).
    """

    codebook: Codebook  #: one that can encode: ascending, at most 4 bits
    outliers: Outliers = None  #: which values stay in fp16; None = none do
    zero_point: bool = False  #: off = r16((lo + hi) / 2), s = r16((hi - lo) / 2), z = r16(-off / s) (D-kllm-10)
    preset: str | KllmArith = "paper"  #: a preset of KLLM, or its choices one by one
    scale: str = "inlier"  #: of what: the "inlier"s, or the "outlier"s next to them (D-kllm-9)

    def __post_init__(self) -> None:
        if not isinstance(self.codebook, Codebook) or not isinstance(self.outliers, Outliers):
            raise RefusedType(
                "KMeans: codebook must be a Codebook and outliers a TopK, Thresholds or None, got "
                f"{self.codebook!r}, {self.outliers!r}"
            )
        if not isinstance(self.zero_point, bool):
            raise RefusedType(f"KMeans: zero_point must be a bool, got {self.zero_point!r}")
        if (why := self.codebook.why_not()) is not None:
            raise Refused(f"KMeans: {why}")
        KllmArith.preset(self.preset)
        require_choice(self.scale, SCALES, "KMeans", "scale")

    @property
    def arith(self) -> KllmArith:
        """The choices behind `preset`."""
        return KllmArith.preset(self.preset)

    def encode(self, x: Any, axis: int = -1) -> KMeansTensor:
        """Indices, scales and outliers of `x`; a vector (a token, or an output channel) lies along `axis`.

        x: float16, or float32 that holds fp16 values, at least one axis, finite. Raises TypeError for another dtype;
        ValueError for NaN, infinity, other values, empty vectors, vectors too short for their outliers.
        """
        values = require_values(x, "KMeans.encode", axis)
        moved = np.moveaxis(values, axis, -1)
        mask = np.zeros(moved.shape, np.bool_) if self.outliers is None else self.outliers.mask(moved)
        frame = self.frame(moved, mask)
        offset = None if frame.offset is None else frame.offset[..., None]
        zero = None if frame.zero is None else frame.zero[..., None]
        index = nearest(moved, frame.scale[..., None], self.codebook, self.arith, zero, offset)
        return self.tensor(np.where(mask, np.uint8(0), index), frame, mask, words_of(moved[mask]), axis)

    def tensor(self, index: np.ndarray, frame: Frame, mask: np.ndarray, outlier: np.ndarray, axis: int) -> KMeansTensor:
        """The encoded tensor from its parts, whose vectors lie along the last axis; `axis` is where they belong."""
        index, mask = (np.ascontiguousarray(np.moveaxis(array, -1, axis)) for array in (index, mask))
        zero = None if frame.zero is None else words_of(frame.zero)
        return KMeansTensor(self.codebook, index, words_of(frame.scale), mask, outlier, axis, zero)

    def frame(self, x: np.ndarray, mask: np.ndarray) -> Frame:
        """Scales of vectors x (..., N) whose outliers `mask` marks; with zero points off and z too."""
        low, high = self._ends(x, mask)
        if not self.zero_point:
            largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float32)
            return Frame(np.where(largest == 0, np.float32(1), largest))
        offset, scale = fp16.round16_of_f64((low + high) / 2), fp16.round16_of_f64((high - low) / 2)
        scale = np.where(scale == 0, np.float32(1), scale)
        return Frame(scale, offset, fp16.div16(-offset, scale) + np.float32(0))  # a zero is +0

    def _ends(self, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What bounds the inliers of every vector from below and from above, float64."""
        if isinstance(self.outliers, Thresholds):
            return np.full(x.shape[:-1], self.outliers.lo), np.full(x.shape[:-1], self.outliers.hi)
        if k := self.outlier_rank(x.shape[-1]):
            ordered = np.sort(x, axis=-1, kind="stable").astype(np.float64)
            return ordered[..., k - 1], ordered[..., -k]
        return (
            np.where(mask, np.inf, x).min(axis=-1).astype(np.float64),
            np.where(mask, -np.inf, x).max(axis=-1).astype(np.float64),
        )

    def outlier_rank(self, n: int) -> int:
        """Rank from either end of the values that bound vectors of `n` values; 0: the inliers do."""
        return self.outliers.count(n) if self.scale == "outlier" and isinstance(self.outliers, TopK) else 0

    def samples(self, x: Any, axis: int = -1) -> np.ndarray:
        """Normalized inliers of `x`, what `train` takes: fp16-valued float32, one axis, vector by vector.

        Dividing by the scale, whatever the preset, so that every preset trains alike. Arguments as for `encode`.
        """
        return normalized_inliers(x, self.outliers, axis, self.zero_point, self.scale)


def normalized_inliers(
    x: Any, outliers: Outliers = None, axis: int = -1, zero_point: bool = False, scale: str = "inlier"
) -> np.ndarray:
    """`KMeans.samples` before there is a codebook: r16(x / s) of every inlier."""
    any_codebook = Codebook(1, np.zeros(2))
    fmt = KMeans(any_codebook, outliers, zero_point, scale=scale)
    moved = np.moveaxis(require_values(x, "KMeans.samples", axis), axis, -1)
    mask = np.zeros(moved.shape, np.bool_) if outliers is None else outliers.mask(moved)
    frame = fmt.frame(moved, mask)
    offset = None if frame.offset is None else frame.offset[..., None]
    return normalized(moved, frame.scale[..., None], fmt.arith, offset)[~mask]


def words_of(values: np.ndarray) -> np.ndarray:
    """uint16 patterns of fp16-valued floats."""
    return fp16.bits(fp16.to_f16(values))
