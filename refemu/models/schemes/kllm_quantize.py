"""Activations to the K-Means format of a KLLM scheme, and what is measured of them for training [kllm §III-A, §III-D].

One vector is one token, all heads together. Which values are outliers is found by the compiled Orizuru, whose roots
also give the scale [kllm §IV-C].
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kmeans_outliers import ThresholdCalibration, TopK

if TYPE_CHECKING:
    pass


def inliers(x: np.ndarray, percent: str | None) -> tuple[np.ndarray | None, np.ndarray]:
    """Mask of the outliers (None: there are none) and scale of each token, float16 (tokens,).

    x: fp16 values (tokens, size). percent: of outliers, or None.
    """
    from refemu.units import orizuru_jit

    values = fp16.to_f16(x)
    if percent is None:
        return None, one_for_zero(np.abs(values).max(axis=1))
    found = orizuru_jit.run(values, TopK(percent).count(values.shape[1]))
    return found.outlier_mask, one_for_zero(np.maximum(np.abs(found.root_max), np.abs(found.root_min)))


def one_for_zero(scale: np.ndarray) -> np.ndarray:
    """Scales as they are stored: 1 for 0 (D-kllm-11)."""
    return np.where(scale > 0, scale, np.float16(1))


def train(x: np.ndarray, scale: np.ndarray, mask: np.ndarray | None, weights: Any, bits: int) -> np.ndarray:
    """The codebook of the inliers of x (vectors, size), each divided by the scale of its vector: fp16 words.

    weights: of the samples, as x, or None.
    """
    from refemu.arith import fp16_jit
    from refemu.formats import kmeans_train_jit

    wide = np.asarray(x, np.float32)
    hats = fp16_jit.round16(wide / scale.astype(np.float32)[:, None])
    if mask is not None:
        hats, weights = hats[~mask], None if weights is None else weights[~mask]
    found = kmeans_train_jit.train(hats, weights, bits=bits)
    return fp16.bits(fp16.to_f16(found.centroids))


def limits(x: np.ndarray, percent: str, statistic: str) -> np.ndarray:
    """Static limits hi, lo of the inliers of a token, fp16 words (2,) (D-kllm-30)."""
    collected = ThresholdCalibration(TopK(percent), statistic)
    collected.add(x)
    found = collected.thresholds()
    return fp16.bits(fp16.to_f16(np.array([found.hi, found.lo])))
