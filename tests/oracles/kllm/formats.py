"""KLLM's K-Means format on Python integers and fractions [kllm §II-A, §III-A, §V-A].

FP16 values are 16-bit words (ints) everywhere; a derived codebook is a list of Python floats, which hold products of
two FP16 values exactly. Positions and indices count from 0.

    nearest(x, scale, codebook, normalize=, distance=, tie=, zero=, offset=)   index of one element
    outlier_count(n, percent)          k per side
    largest(x, k), smallest(x, k)      positions in the order in which they are taken out
    encode(x, codebook, ...)           -> Vector;  values(vector), dequantized(vector), storage_bits(vectors, layout)
    thresholds(tokens, percent, statistic)   static (hi, lo)
    train(samples, weights, bits=, ...)      -> Trained (codebook and the course of the training)
    optimum(samples, weights, bits)          least cost of any clustering, by dynamic programming
    cartesian(a, b, table), squares(c, table)
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from tests.oracles import fp16

ONE = 0x3C00
INFINITY = 0x7C00


def exact(u: int) -> Fraction:
    """The value of a finite FP16 word."""
    return Fraction(fp16.to_float(u))


def positive_zero(u: int) -> int:
    """The word with -0 made +0."""
    return 0 if u == fp16.SIGN else u


def key(u: int, total_order: bool = False) -> int:
    """An integer that orders FP16 words as their values; -0 equals +0 unless `total_order`, where -0 < +0."""
    magnitude = u & 0x7FFF
    if total_order:
        return -magnitude - 1 if u & fp16.SIGN else magnitude
    return -magnitude if u & fp16.SIGN else magnitude


# Nearest centroid.


def normalized(x: int, scale: int, normalize: str = "divide", offset: int = 0) -> int:
    """x^: "divide" (x - offset) / scale, "reciprocal" (x - offset) * r16(1 / scale); the difference is exact."""
    if offset in (0, fp16.SIGN):
        return fp16.div(x, scale) if normalize == "divide" else fp16.mul(x, fp16.div(ONE, scale))
    factor = 1 / exact(scale) if normalize == "divide" else exact(fp16.div(ONE, scale))
    return fp16.from_fraction((exact(x) - exact(offset)) * factor)


def nearest(
    x: int,
    scale: int,
    codebook: Sequence[int],
    normalize: str = "divide",
    distance: str = "fp16",
    tie: str = "low",
    zero: int = 0,
    offset: int = 0,
) -> int:
    """Index of the nearest centroid; a tie goes to the lower value ("high": the higher), a run to its first index.

    paper: normalize "divide" (or "reciprocal"), distance "fp16" |r16(x^ - c)|; also "real" |x^ - c| and
    "midpoint16" x^ > r16((c + c') / 2). exact: normalize "none", distance "real" |x - s * (c - z)|.
    An infinite or NaN x^: see `without_a_nearest`.
    """
    if normalize == "none":
        assert distance == "real"
        return first_least([abs(exact(x) - exact(scale) * (exact(c) - exact(zero))) for c in codebook], codebook, tie)
    hat = normalized(x, scale, normalize, offset)
    if hat & INFINITY == INFINITY:
        return without_a_nearest(hat, codebook, distance, tie)
    if distance == "midpoint16":
        return by_midpoints(hat, codebook, tie)
    if distance == "real":
        return first_least([abs(exact(hat) - exact(c)) for c in codebook], codebook, tie)
    return first_least([abs(fp16.to_float(fp16.sub(hat, c))) for c in codebook], codebook, tie)


def without_a_nearest(hat: int, codebook: Sequence[int], distance: str, tie: str) -> int:
    """Index for an x^ of infinity or NaN. fp16 distances are then all equal, so `tie` decides. Else x^ is beyond
    the midpoints on its side, and NaN above none."""
    last = list(codebook).index(codebook[-1])
    above = tie == "high" if distance == "fp16" else hat == INFINITY
    return last if above else 0


def first_least(distances: Sequence[float | Fraction], codebook: Sequence[int], tie: str) -> int:
    """First index of the centroid with the least distance: of several the lowest, or for "high" the highest value."""
    least = min(distances)
    found = [i for i, d in enumerate(distances) if d == least]
    return codebook.index(codebook[found[0 if tie == "low" else -1]])


def by_midpoints(hat: int, codebook: Sequence[int], tie: str) -> int:
    """Compares with FP16 midpoints of neighbouring distinct centroids."""
    distinct = sorted(set(codebook), key=key)
    middles = [fp16.from_fraction((exact(a) + exact(b)) / 2) for a, b in pairwise(distinct)]
    above = [exact(hat) > exact(m) or (tie == "high" and exact(hat) == exact(m)) for m in middles]
    return codebook.index(distinct[sum(above)])


# Outliers.


def outlier_count(n: int, percent: str | int | Fraction) -> int:
    """k per side: half of the percentage of `n`, rounded up."""
    return math.ceil(n * Fraction(percent) / 200)


def largest(x: Sequence[int], k: int, total_order: bool = False) -> list[int]:
    """Positions of the k largest: value descending, then position ascending."""
    return sorted(range(len(x)), key=lambda i: (-key(x[i], total_order), i))[:k]


def smallest(x: Sequence[int], k: int, total_order: bool = False, min_leaf: str = "not_max") -> list[int]:
    """Positions of the k smallest: value, then pair 2j, 2j+1, in a pair the odd one; `min_leaf` "compare": position."""
    if min_leaf == "compare":
        return sorted(range(len(x)), key=lambda i: (key(x[i], total_order), i))[:k]
    return sorted(range(len(x)), key=lambda i: (key(x[i], total_order), i // 2, i % 2 == 0))[:k]


def top_mask(x: Sequence[int], k: int) -> list[int]:
    """1 at the k largest and the k smallest."""
    chosen = {*largest(x, k), *smallest(x, k)}
    return [int(i in chosen) for i in range(len(x))]


def thresholds(tokens: Sequence[Sequence[int]], percent: str | int, statistic: str = "mean") -> tuple[int, int]:
    """Static (hi, lo): the exact mean of the tokens' extreme inliers, rounded once; or a rank over all values."""
    if statistic == "pooled":
        pool = [u for token in tokens for u in token]
        place = outlier_count(len(pool), percent)
        ranked = sorted(pool, key=key)
        return ranked[-1 - place], ranked[place]
    ranked_tokens = [(sorted(token, key=key), outlier_count(len(token), percent)) for token in tokens]
    hi = sum(exact(token[-1 - k]) for token, k in ranked_tokens) / len(tokens)
    lo = sum(exact(token[k]) for token, k in ranked_tokens) / len(tokens)
    return fp16.from_fraction(Fraction(hi)), fp16.from_fraction(Fraction(lo))


# Tensors.


@dataclass(frozen=True)
class Vector:
    """One token or one output channel; `mask` 1 marks an outlier, `outlier` holds them by ascending position."""

    codebook: list[int]
    index: list[int]
    scale: int
    mask: list[int]
    outlier: list[int]
    zero: int | None = None


def scale_of(inliers: Sequence[int]) -> int:
    """The larger magnitude of the extreme inliers; 1 where that is 0 or where there are none."""
    return max((u & 0x7FFF for u in inliers), default=0) or ONE


def affine_of(inliers: Sequence[int]) -> tuple[int, int, int]:
    """Offset, scale and zero point in the middle of the inliers; exact values rounded once each."""
    lo, hi = min(map(exact, inliers), default=Fraction(0)), max(map(exact, inliers), default=Fraction(0))
    offset = fp16.from_fraction((lo + hi) / 2)
    scale = fp16.from_fraction((hi - lo) / 2) or ONE
    return offset, scale, fp16.from_fraction(-exact(offset) / exact(scale))


def encode(
    x: Sequence[int],
    codebook: Sequence[int],
    k: int = 0,
    limits: tuple[int, int] | None = None,
    zero_point: bool = False,
    normalize: str = "divide",
    distance: str = "fp16",
    tie: str = "low",
    scale_from: str = "inlier",
) -> Vector:
    """A vector of FP16 words; `k` outliers per side, or those beyond the static `limits` (hi, lo), which give s too.

    scale_from: "outlier" takes s from the least of the `k` outliers of each side.
    """
    if limits is None:
        mask = top_mask(x, k)
        decisive = [u for u, m in zip(x, mask, strict=True) if not m]
        if scale_from == "outlier" and k > 0:
            decisive = [sorted(x, key=key)[-k], sorted(x, key=key)[k - 1]]
    else:
        hi, lo = limits
        mask = [int(key(u) > key(hi) or key(u) < key(lo)) for u in x]
        decisive = [hi, lo]
    offset, scale, zero = affine_of(decisive) if zero_point else (0, scale_of(decisive), 0)
    index = [
        0 if m else nearest(u, scale, codebook, normalize, distance, tie, zero, offset)
        for u, m in zip(x, mask, strict=True)
    ]
    outlier = [u for u, m in zip(x, mask, strict=True) if m]
    return Vector(list(codebook), index, scale, mask, outlier, zero if zero_point else None)


def spread(vector: Vector) -> list[int | None]:
    """The outlier at each position, None at inliers."""
    rest = iter(vector.outlier)
    return [next(rest) if m else None for m in vector.mask]


def values(vector: Vector) -> list[Fraction]:
    """[kllm Eq. 1]: s * (c - z) without rounding; an outlier is its own value."""
    scale, zero = exact(vector.scale), exact(vector.zero or 0)
    return [
        scale * (exact(vector.codebook[i]) - zero) if o is None else exact(o)
        for i, o in zip(vector.index, spread(vector), strict=True)
    ]


def dequantized(vector: Vector) -> list[int]:
    """FP16 words: r16 of the exact s * (c - z); an outlier stays."""
    return [
        dequantize(vector.codebook[i], vector.scale, vector.zero) if o is None else o
        for i, o in zip(vector.index, spread(vector), strict=True)
    ]


def dequantize(c: int, scale: int, zero: int | None = None) -> int:
    """r16(s * c), or r16(s * (c - z))."""
    return fp16.mul(scale, c) if zero is None else fp16.from_fraction(exact(scale) * (exact(c) - exact(zero)))


def storage_bits(vectors: Sequence[Vector], layout: str, outliers: bool = True) -> int:
    """Indices, scales, zero points, outliers as `mask` or `list`, and the codebook once."""
    bits = 16 * len(vectors[0].codebook)
    for v in vectors:
        n, m = len(v.index), sum(v.mask)
        bits += n * (len(v.codebook).bit_length() - 1) + 16 + (0 if v.zero is None else 16)
        if outliers:
            bits += n + 16 * m if layout == "mask" else m * (16 + (n - 1).bit_length())
    return bits


# Training.


class Trained(NamedTuple):
    """Codebook as FP16 words; exact centroids in units of 2**-24; costs and borders after each assignment."""

    codebook: list[int]
    centroids: list[Fraction]
    costs: list[Fraction]
    borders: list[list[int]]
    updates: int


def histogram(samples: Sequence[int], weights: Sequence[float] | None = None) -> tuple[list[int], list[int]]:
    """Distinct samples in units of 2**-24, ascending, and the integer weight of each."""
    top = max(weights, default=0.0) if weights is not None else 0.0
    whole = [1] * len(samples) if weights is None or top == 0 else [round(w / top * 2**32) for w in weights]
    bins: dict[int, int] = {}
    for u, w in zip(samples, whole, strict=True):
        if w:
            place = int(exact(u) * 2**24)
            bins[place] = bins.get(place, 0) + w
    return sorted(bins), [bins[u] for u in sorted(bins)]


def quantile_init(u: Sequence[int], w: Sequence[int], count: int) -> list[int]:
    """The bins at which the centroids start, made distinct."""
    cumulative = list(accumulate(w))
    q = [
        next(j for j, c in enumerate(cumulative) if 2 * count * c >= (2 * i + 1) * cumulative[-1]) for i in range(count)
    ]
    for i in range(1, count):
        q[i] = max(q[i], q[i - 1] + 1)
    return [min(place, len(u) - count + i) for i, place in enumerate(q)]


def train(
    samples: Sequence[int],
    weights: Sequence[float] | None = None,
    *,
    bits: int,
    given: Sequence[int] | None = None,
    max_iter: int = 300,
) -> Trained:
    """Lloyd's iteration in rationals over FP16 samples x^; `given` are FP16 words to start from."""
    u, w = histogram(samples, weights)
    count = 1 << bits
    if len(u) <= count:
        centroids = [Fraction(v) for v in u + u[-1:] * (count - len(u))]
        return Trained([to_word(c) for c in centroids], centroids, [], [], 0)
    if given is None:
        centroids = [Fraction(u[q]) for q in quantile_init(u, w, count)]
    else:
        centroids = [exact(c) * 2**24 for c in given]
    costs: list[Fraction] = []
    trace: list[list[int]] = []
    updates = 0
    while True:
        borders = [bisect_right(u, (a + b) / 2) for a, b in pairwise(centroids)]
        trace.append(borders)
        parts = list(zip([0, *borders], [*borders, len(u)], strict=True))
        costs.append(sum((cost(u[a:b], w[a:b], c) for (a, b), c in zip(parts, centroids, strict=True)), Fraction(0)))
        if trace[-2:-1] == [borders] or updates == max_iter:
            return Trained([to_word(c) for c in centroids], centroids, costs, trace, updates)
        centroids = [mean(u[a:b], w[a:b]) if a < b else c for (a, b), c in zip(parts, centroids, strict=True)]
        updates += 1


def mean(u: Sequence[int], w: Sequence[int]) -> Fraction:
    """Weighted mean."""
    return Fraction(sum(a * b for a, b in zip(u, w, strict=True)), sum(w))


def cost(u: Sequence[int], w: Sequence[int], center: Fraction) -> Fraction:
    """Weighted sum of squared distances."""
    return sum((b * (a - center) ** 2 for a, b in zip(u, w, strict=True)), Fraction(0))


def to_word(centroid: Fraction) -> int:
    """FP16 word of a centroid in units of 2**-24; zero is +0."""
    return positive_zero(fp16.from_fraction(centroid / 2**24))


def optimum(samples: Sequence[int], weights: Sequence[float] | None, bits: int) -> Fraction:
    """The least cost of any split into 2**bits runs of bins (an optimal 1-D clustering is always such a split)."""
    u, w = histogram(samples, weights)
    infinite = Fraction(10**40)
    single = {(a, b): cost(u[a:b], w[a:b], mean(u[a:b], w[a:b])) for b in range(1, len(u) + 1) for a in range(b)}
    best = [Fraction(0)] + [infinite] * len(u)
    for _ in range(1 << bits):
        best = [min([best[b]] + [best[a] + single[a, b] for a in range(b)]) for b in range(len(u) + 1)]
    return best[-1]


# Derived codebooks.


def derived(product: float, table: str) -> float:
    """One entry: r16 of an exact product, or the product itself ("fp32"); zero is +0."""
    value = fp16.to_float(fp16.from_float(product)) if table == "fp16" else product
    return value if value != 0 else 0.0


def cartesian(a: Sequence[int], b: Sequence[int], table: str = "fp16") -> list[float]:
    """Entry (i << nB) | j is the product of centroids a_i and b_j."""
    return [derived(fp16.to_float(i) * fp16.to_float(j), table) for i in a for j in b]


def squares(codebook: Sequence[int], table: str = "fp16") -> list[float]:
    """Entry i is the square of centroid i."""
    return [derived(fp16.to_float(c) ** 2, table) for c in codebook]


def concat(a: int, b: int, b_bits: int) -> int:
    """[kllm §III-B]: the index of A high, that of B low."""
    return int(f"{a:b}" + f"{b:0{b_bits}b}", 2)
