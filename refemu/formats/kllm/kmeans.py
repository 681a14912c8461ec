"""The K-Means format: indices into a shared codebook, a scale per vector, outliers in fp16.

Paper: [kllm §II-A, Eq. (1), §III-A, §V-A]. Decisions: D-kllm-9 (scale), D-kllm-10 (zero points), D-kllm-11 (scale of
zeros), D-kllm-27 (NaN and infinity are errors), D-kllm-30 (static scale).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, require_choice
from refemu.arith.records import parameters, plain_fields
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_nearest import nearest, normalized
from refemu.formats.kllm.kmeans_outliers import Thresholds, TopK, require_values
from refemu.formats.kllm.kmeans_tensor import KMeansTensor

__all__ = ["Codebook", "KMeans", "KMeansTensor", "Thresholds", "TopK"]

Outliers = TopK | Thresholds | None
ScaleOf: TypeAlias = Literal["inlier", "outlier"]  #: what the scale is taken from (D-kllm-9)
SCALES: tuple[ScaleOf, ...] = get_args(ScaleOf)


@dataclass(frozen=True)
class Frame:
    """Range of every vector: scales, and offsets and zero points if there are any."""

    scale: np.ndarray  #: fp16-valued float32, the shape of the vectors; so are the others
    offset: np.ndarray | None = None
    zero: np.ndarray | None = None


@parameters
class KMeans:
    """K-Means format: an inlier becomes the index of the centroid nearest to x / s, s the largest inlier magnitude.

    With `scale="outlier"` s is the larger magnitude of the two values that bound the inliers, the k-th largest and the
    k-th smallest; where k is 0 it stays the largest inlier. With thresholds s is max(|hi|, |lo|), whatever the vector
    holds (D-kllm-30). A scale of 0 becomes 1 (D-kllm-11).

    References
    ----------
    [kllm §II-A, Eq. (1), §III-A]
    """

    codebook: Codebook  #: one that can encode: ascending, at most 4 bits
    outliers: Outliers = None  #: which values stay in fp16; None = none do
    zero_point: bool = False  #: off = r16((lo + hi) / 2), s = r16((hi - lo) / 2), z = r16(-off / s) (D-kllm-10)
    preset: Preset | KllmArith = "paper"  #: a preset of KLLM, or its choices one by one
    scale: ScaleOf = "inlier"  #: of what: the "inlier"s, or the "outlier"s next to them (D-kllm-9)

    def __post_init__(self) -> None:
        plain_fields(self)
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
        """Options of arithmetic that `preset` stands for."""
        return KllmArith.preset(self.preset)

    def encode(self, x: ArrayLike, axis: int = -1) -> KMeansTensor:
        """Encode vectors along an axis: a token, or an output channel.

        Parameters
        ----------
        x : array_like of float16, or of float32 that holds fp16 values
            At least one axis, finite.
        axis : int
            Axis of the vectors.

        Returns
        -------
        KMeansTensor
            Indices, scales and outliers.

        Raises
        ------
        Refused
            NaN, infinity, other values, empty vectors, or vectors too short for their outliers.
        RefusedType
            Another dtype.
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
        """Make the encoded tensor from its parts, whose vectors run along the last axis.

        Parameters
        ----------
        index : ndarray of uint8 (..., N)
            Indices.
        frame : Frame
            Scales and zero points.
        mask : ndarray of bool (..., N)
            True at outliers.
        outlier : ndarray of uint16
            fp16 patterns, vector by vector.
        axis : int
            Axis of the vectors in the tensor.

        Returns
        -------
        KMeansTensor
            Tensor.
        """
        index, mask = (np.ascontiguousarray(np.moveaxis(array, -1, axis)) for array in (index, mask))
        zero = None if frame.zero is None else words_of(frame.zero)
        return KMeansTensor(self.codebook, index, words_of(frame.scale), mask, outlier, axis, zero)

    def frame(self, x: np.ndarray, mask: np.ndarray) -> Frame:
        """Scales of vectors; with zero points offsets and zero points too.

        Parameters
        ----------
        x : ndarray of float32 (..., N)
            Values.
        mask : ndarray of bool (..., N)
            True at outliers.

        Returns
        -------
        Frame
            Scales, offsets and zero points.
        """
        low, high = self._ends(x, mask)
        if not self.zero_point:
            largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float32)
            return Frame(np.where(largest == 0, np.float32(1), largest))
        offset, scale = fp16.round16_of_f64((low + high) / 2), fp16.round16_of_f64((high - low) / 2)
        scale = np.where(scale == 0, np.float32(1), scale)
        return Frame(scale, offset, fp16.div16(-offset, scale) + np.float32(0))  # a zero is +0

    def _ends(self, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the inliers of every vector from below and from above, float64."""
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
        """Rank from either end of the values that bound a vector.

        Parameters
        ----------
        n : int
            Values of the vector.

        Returns
        -------
        int
            Rank; 0 where the inliers bound it.
        """
        return self.outliers.count(n) if self.scale == "outlier" and isinstance(self.outliers, TopK) else 0

    def samples(self, x: ArrayLike, axis: int = -1) -> np.ndarray:
        """Normalized inliers of a tensor, as `train` takes them.

        Divided by the scale, whatever the preset, so that every preset trains alike.

        Parameters
        ----------
        x : array_like
            As for `encode`.
        axis : int
            Axis of the vectors.

        Returns
        -------
        ndarray of float32, one axis
            fp16 values, vector by vector.

        Raises
        ------
        Refused
            As `encode` does.
        """
        return normalized_inliers(x, self.outliers, axis, self.zero_point, self.scale)


def normalized_inliers(
    x: ArrayLike, outliers: Outliers = None, axis: int = -1, zero_point: bool = False, scale: ScaleOf = "inlier"
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
