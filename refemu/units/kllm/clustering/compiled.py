"""Compiled twin of clustering: one kernel rounds all fp16 results, another searches among them. [kllm §IV-A]

The search compares patterns of distances as integers, or values with the midpoints.
"""

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.jit import kernel
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.derived import Arrays, twin
from refemu.units.kllm.clustering import UNIT, Clustering


@twin(UNIT)
def run(device: Clustering, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
    """All elements at once."""
    values, divisors, books = (_wide(array) for array in inputs)
    centroids, (index, overflow, x_hat, seen) = books.reshape(-1, 1 << device.bits), outputs
    hats, overflow[:] = _normalized(values, divisors, device.arith)
    x_hat[:] = fp16.bits(fp16.to_f16(hats))
    high = int(device.arith.tie == "high")
    if device.arith.distance == "fp16":
        with np.errstate(all="ignore"):
            distances = np.abs(fp16_jit.round16(hats[:, None] - centroids))
        seen[:] = fp16.bits(fp16.to_f16(distances)).reshape(seen.shape)
        _least(distances.view(np.int32), centroids, high, index)
    else:
        twice, borders = 2 * hats.astype(np.float64), _borders(centroids, divisors, device.arith)
        above = twice[:, None] >= borders if high else twice[:, None] > borders
        seen[:] = above.reshape(seen.shape)
        _rank(twice, borders, centroids, high, index)
    compared = centroids.shape[1] - (device.arith.distance != "fp16")
    return values.size * compared, -(-values.size // device.lanes)


def _wide(words: np.ndarray) -> np.ndarray:
    """float32 values of fp16 patterns, one axis."""
    return fp16_jit.to_f32(np.ascontiguousarray(words).view(np.float16).reshape(-1))


def _normalized(x: np.ndarray, scale: np.ndarray, arith: KllmArith) -> tuple[np.ndarray, np.ndarray]:
    """x^ and where an fp16 result became infinite."""
    if arith.normalize == "none":
        return x, np.zeros(x.shape, np.bool_)
    with np.errstate(all="ignore"):
        if arith.normalize == "divide":
            hats = fp16_jit.round16(x / scale)
            return hats, np.isinf(hats)
        inverse = fp16_jit.round16(np.float32(1) / scale)
        hats = fp16_jit.round16(x * inverse)
    return hats, np.isinf(inverse) | np.isinf(hats)


def _borders(centroids: np.ndarray, scale: np.ndarray, arith: KllmArith) -> np.ndarray:
    """Twice the midpoints, float64 (elements, 2**bits - 1)."""
    wide = centroids.astype(np.float64)
    twice = wide[:, :-1] + wide[:, 1:]
    if arith.normalize == "none":
        return scale.astype(np.float64)[:, None] * twice
    return 2 * fp16.round16_of_f64(twice / 2).astype(np.float64) if arith.distance == "midpoint16" else twice


@kernel
def _least(distances, centroids, high, index):  # type: ignore[no-untyped-def]
    """distances: float32 patterns, not negative, so ordered as integers."""
    for i in range(index.size):
        best = np.int64(0)
        for j in range(1, distances.shape[1]):
            here, least = np.int64(distances[i, j]), np.int64(distances[i, best])
            if here < least + high:
                best = j
        while best > 0 and centroids[i, best - 1] == centroids[i, best]:
            best -= 1
        index[i] = best


@kernel
def _rank(twice, borders, centroids, high, index):  # type: ignore[no-untyped-def]
    """Count the borders below (high: not above) each value."""
    for i in range(index.size):
        rank = np.int64(0)
        for j in range(borders.shape[1]):
            rank += np.int64(twice[i] > borders[i, j]) + high * np.int64(twice[i] == borders[i, j])
        while rank > 0 and centroids[i, rank - 1] == centroids[i, rank]:
            rank -= 1
        index[i] = rank
