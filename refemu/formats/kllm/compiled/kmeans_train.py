"""Compiled form of kmeans_train.train: same arguments, equal codebooks. Read kmeans_train.py first. [kllm §III-A]

A centroid is whole + rest / weight, in integers: sums of weight * value take two words, and fractions are compared by
products of two words. Samples beyond the bounds of that, which x / s never is, take the readable form.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.integers import peak
from refemu.arith.jit import callee, kernel
from refemu.formats.kllm import kmeans_train
from refemu.formats.kllm.codebook import Codebook

WORD = np.int64(0xFFFFFFFF)
HALF = np.int64(0x7FFFFFFF)  #: 31 bits, of which a product of two weights has four
LOW = np.int64((1 << 62) - 1)


def train(
    values: ArrayLike | kmeans_train.Histogram,
    weights: ArrayLike | None = None,
    *,
    bits: int,
    init: kmeans_train.Start = "quantile",
    max_iter: int = 300,
) -> Codebook:
    """`kmeans_train.train`."""
    collected, weighing = kmeans_train.prepare(values, weights, bits, init, max_iter)
    points, heavy = collected.bins()
    most = peak(points)
    if (
        points.size <= 1 << bits
        or collected.total >= 1 << 61
        or most >= 1 << 30
        or ((collected.total >> 32) * most >= 1 << 61)
    ):
        return kmeans_train.train(collected, bits=bits, init=init, max_iter=max_iter)
    first = kmeans_train.start(points.tolist(), heavy.tolist(), bits, weighing)
    whole = np.array([int(centroid) for centroid in first], np.int64)
    rest, weight = np.zeros_like(whole), np.ones_like(whole)
    _iterate(points, heavy, whole, rest, weight, max_iter)
    parts = zip(whole.tolist(), rest.tolist(), weight.tolist(), strict=True)
    return kmeans_train.codebook([Fraction(q * w + r, w) for q, r, w in parts], bits)


@kernel
def _iterate(points, heavy, whole, rest, weight, max_iter):  # type: ignore[no-untyped-def]
    """Centroids whole + rest / weight (M,) after the training on points (D,) ascending, with their weights."""
    below = np.zeros(points.size + 1, np.int64)
    high = np.zeros(points.size + 1, np.int64)
    low = np.zeros(points.size + 1, np.int64)
    for i in range(points.size):
        below[i + 1] = below[i] + heavy[i]
        part = low[i] + (heavy[i] & WORD) * points[i]
        high[i + 1] = high[i] + (heavy[i] >> 32) * points[i] + (part >> 32)
        low[i + 1] = part & WORD
    edges = np.zeros(whole.size + 1, np.int64)
    edges[whole.size] = points.size
    _assign(points, whole, rest, weight, edges)
    for _ in range(max_iter):
        for i in range(whole.size):
            first, end = edges[i], edges[i + 1]
            if end > first:
                lower = low[end] - low[first]
                upper = high[end] - high[first] + (lower >> 32)
                weight[i] = below[end] - below[first]
                whole[i], rest[i] = _divide(upper, lower & WORD, weight[i])
        if not _assign(points, whole, rest, weight, edges):
            break


@callee
def _assign(points, whole, rest, weight, edges):  # type: ignore[no-untyped-def]
    """Number of edges between clusters that moved."""
    moved = np.int64(0)
    for i in range(whole.size - 1):
        # c + c' reaches the next integer if rest / weight + rest' / weight' >= 1
        left = _product(rest[i], weight[i + 1])
        right = _product(weight[i + 1] - rest[i + 1], weight[i])
        carry = np.int64(left[0] > right[0] or (left[0] == right[0] and left[1] >= right[1]))
        middle = (whole[i] + whole[i + 1] + carry) >> 1
        start, end = np.int64(0), np.int64(points.size)
        while start < end:
            at = (start + end) >> 1
            if points[at] <= middle:
                start = at + 1
            else:
                end = at
        moved += np.int64(edges[i + 1] != start)
        edges[i + 1] = start
    return moved


@callee
def _divide(high, low, divisor):  # type: ignore[no-untyped-def]
    """Quotient, rounded down, and remainder of high * 2**32 + low; 0 <= low < 2**32, divisor below 2**61."""
    quotient = high // divisor
    remainder = high - quotient * divisor
    for place in range(31, -1, -1):
        remainder = (remainder << 1) | ((low >> place) & 1)
        fits = np.int64(remainder >= divisor)
        remainder -= fits * divisor
        quotient = (quotient << 1) | fits
    return quotient, remainder


@callee
def _product(a, b):  # type: ignore[no-untyped-def]
    """a * b as two words of 62 bits, the upper first; both factors in [0, 2**61]."""
    cross = (a >> 31) * (b & HALF) + (a & HALF) * (b >> 31)
    lower = (a & HALF) * (b & HALF) + ((cross & HALF) << 31)
    return (a >> 31) * (b >> 31) + (cross >> 31) + (lower >> 62), lower & LOW
