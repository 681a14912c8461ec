"""Quantization of activations to the K-Means format, and their statistics for training [kllm §III-A, §III-D].

A vector is a token, all heads together. The compiled Orizuru finds the outliers; its roots also give the scale [kllm
§IV-C].
"""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_outliers import ThresholdCalibration, Thresholds, ThresholdStatistic, TopK
from refemu.formats.kllm.kmeans_train import Histogram, histogram


class Found:
    """Result of Orizuru for fp16 values x (tokens, size) with a percentage of outliers, None for none."""

    def __init__(self, x: np.ndarray, percent: str | None) -> None:
        from refemu.units.kllm.orizuru import compiled as orizuru_compiled

        self.percent: str | None = percent
        self.values: np.ndarray = fp16.to_f16(x)
        self.mask: np.ndarray | None
        self.scale: np.ndarray
        if percent is None:
            self.mask = None
            self.scale = one_for_zero(np.abs(self.values).max(axis=1))
            return
        popped = orizuru_compiled.pops(self.values, TopK(percent).count(self.values.shape[1]))
        self.mask, self._high, self._low = popped.outlier_mask, popped.root_max, popped.root_min
        self.scale = one_for_zero(np.maximum(np.abs(self._high), np.abs(self._low)))

    def __repr__(self) -> str:
        return f"Found({self.values.shape}, percent={self.percent!r})"

    def samples(self, weights: np.ndarray | None = None) -> Histogram:
        """The inliers for training, each divided by its token's scale; weights: of all values, or None."""
        return samples(self.values, self.scale, self.mask, weights)

    def limits(self, statistic: ThresholdStatistic) -> np.ndarray | None:
        """Static limits hi, lo of the inliers, fp16 words (2,), None without outliers (D-kllm-30)."""
        if self.percent is None:
            return None
        if statistic == "mean":  # the roots are the extreme inliers
            collected = ThresholdCalibration(TopK(k=0), "mean")
            collected.add(np.stack([self._high, self._low], axis=1))
        else:
            collected = ThresholdCalibration(TopK(self.percent), statistic)
            collected.add(self.values)
        return words_of(collected.thresholds())


def words_of(limits: Thresholds) -> np.ndarray:
    """hi, lo as fp16 words."""
    return fp16.bits(fp16.to_f16(np.array([limits.hi, limits.lo])))


def one_for_zero(scale: np.ndarray) -> np.ndarray:
    """Scales to store: 1 instead of 0 (D-kllm-11)."""
    return np.where(scale > 0, scale, np.float16(1))


def samples(x: np.ndarray, scale: np.ndarray, mask: np.ndarray | None, weights: Any) -> Histogram:
    """fp16 values x (vectors, size) divided by their vectors' scales, without those of `mask`, each with its weight."""
    from refemu.arith import fp16_compiled

    hats = fp16_compiled.round16(fp16_compiled.to_f32(x) / scale.astype(np.float32)[:, None])
    if mask is not None:
        hats, weights = hats[~mask], None if weights is None else weights[~mask]
    return histogram(hats, weights)


def codebook(samples: Histogram, bits: int) -> np.ndarray:
    """The codebook from training: fp16 words."""
    from refemu.formats.kllm.compiled import kmeans_train as kmeans_train_compiled

    return np.array(kmeans_train_compiled.train(samples, bits=bits).values)
