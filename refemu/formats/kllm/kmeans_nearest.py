"""Nearest centroid of a value, in every arithmetic that KllmArith names: all elements at once.

Paper: [kllm §III-A, §IV-A], the Clustering Unit. Decisions: D-kllm-7 (a tie goes to the lower index), D-kllm-8
(normalizing and distances), D-kllm-10 (zero points).
"""

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Tie


def nearest(
    x: np.ndarray,
    scale: np.ndarray,
    codebook: Codebook,
    arith: KllmArith,
    zero: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> np.ndarray:
    """Index of the centroid nearest to every x.

    x: fp16-valued float32 of any shape. scale: positive, fp16-valued float32, broadcasts with x. zero, offset: z and
    off of the same kind, or None. Returns uint8, the shape of x.
    """
    if arith.normalize == "none":
        wide = scale.astype(np.float64)[..., None]
        shift = 0.0 if zero is None else 2.0 * zero.astype(np.float64)[..., None]
        sums = wide * (neighbours(codebook) - shift)  # 53 bits: exact
        return _count(2.0 * x.astype(np.float64), sums, codebook, arith.tie)
    return nearest_normalized(normalized(x, scale, arith, offset), codebook, arith)


def normalized(x: np.ndarray, scale: np.ndarray, arith: KllmArith, offset: np.ndarray | None = None) -> np.ndarray:
    """x^ = r16((x - off) / s), or r16((x - off) * r16(1 / s)), fp16-valued float32; the difference is exact.

    The quotient of 41 by 11 bits in float64 is too far from a midpoint of fp16 values for its rounding to matter.
    """
    if offset is not None:
        left, right = x.astype(np.float64) - offset, scale.astype(np.float64)
        with np.errstate(all="ignore"):
            exact = left / right if arith.normalize == "divide" else left * fp16.div16(np.float32(1), scale)
        return fp16.round16_of_f64(exact)
    return fp16.div16(x, scale) if arith.normalize == "divide" else fp16.mul16(x, fp16.div16(np.float32(1), scale))


def nearest_normalized(x: np.ndarray, codebook: Codebook, arith: KllmArith) -> np.ndarray:
    """Index of the centroid nearest to every x^, fp16-valued float32; uint8, the shape of x."""
    if arith.distance == "fp16":
        return first_alike(codebook)[_least(_distances(x, codebook), arith.tie)]
    if arith.distance == "midpoint16":
        middles = fp16.round16_of_f64(neighbours(codebook) / 2).astype(np.float64)
        return _count(x.astype(np.float64), middles, codebook, arith.tie)
    return _count(2.0 * x.astype(np.float64), neighbours(codebook), codebook, arith.tie)


def _distances(x: np.ndarray, codebook: Codebook) -> np.ndarray:
    """|r16(x^ - c)|, the centroids on a new last axis."""
    with np.errstate(invalid="ignore"):
        return np.abs(fp16.round16(x[..., None] - codebook.centroids))


def _least(distances: np.ndarray, tie: Tie) -> np.ndarray:
    """Index of the least distance, the lowest or the highest one."""
    if tie == "low":
        return np.argmin(distances, axis=-1)
    return distances.shape[-1] - 1 - np.argmin(distances[..., ::-1], axis=-1)


def neighbours(codebook: Codebook) -> np.ndarray:
    """c_i + c_(i + 1), exact in float64: (2**bits - 1,)."""
    centroids = codebook.centroids.astype(np.float64)
    return centroids[:-1] + centroids[1:]


def _count(x: np.ndarray, borders: np.ndarray, codebook: Codebook, tie: Tie) -> np.ndarray:
    """Number of borders below x, a tie counting if it is "high"."""
    above = x[..., None] > borders if tie == "low" else x[..., None] >= borders
    return first_alike(codebook)[np.count_nonzero(above, axis=-1)]


def first_alike(codebook: Codebook) -> np.ndarray:
    """Index of the first of the centroids equal to each: of a run only that one is ever the answer."""
    return np.searchsorted(codebook.centroids, codebook.centroids).astype(np.uint8)
