"""Compiled twin of clustering.run: same arguments, same Result. Read clustering.py first. [kllm §IV-A]

All fp16 results are made at once, by the kernel that rounds; the search among them is in integers, or compares.
"""

from typing import Any

import numpy as np

from refemu.arith import fp16, fp16_jit
from refemu.arith.jit import kernel
from refemu.formats.kllm_arith import KllmArith
from refemu.units.clustering import Clustering, Result


def run(
    x: Any, scale: Any, codebook: Any, *, bits: int = 4, preset: str | KllmArith = "paper", lanes: int = 16
) -> Result:
    """As `clustering.run`."""
    device = Clustering(bits, preset, lanes)
    words, scales, books = device.admitted(x, scale, codebook)
    values, divisors = (_wide(array) for array in (words, scales))
    centroids = _wide(books).reshape(-1, 1 << bits)
    hats, overflow = _normalized(values, divisors, device.arith)
    index = np.empty(words.size, np.uint8)
    high = int(device.arith.tie == "high")
    if device.arith.distance == "fp16":
        with np.errstate(all="ignore"):
            distances = np.abs(fp16_jit.round16(hats[:, None] - centroids))
        _least(distances.view(np.int32), centroids, high, index)
    else:
        _rank(2 * hats.astype(np.float64), _borders(centroids, divisors, device.arith), centroids, high, index)
    compared = (1 << bits) - (device.arith.distance != "fp16")
    return Result(
        index.reshape(words.shape), overflow.reshape(words.shape), words.size * compared, -(-words.size // lanes)
    )


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
    """How many borders lie below (high: not above) each value."""
    for i in range(index.size):
        found = np.int64(0)
        for j in range(borders.shape[1]):
            found += np.int64(twice[i] > borders[i, j]) + high * np.int64(twice[i] == borders[i, j])
        while found > 0 and centroids[i, found - 1] == centroids[i, found]:
            found -= 1
        index[i] = found
