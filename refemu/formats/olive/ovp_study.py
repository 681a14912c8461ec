"""OliVe's own experiments on values: places of outliers, cost of losing them or their neighbours, best format.

Paper: [olive §2.1 Fig. 2; §2.3 Tbl. 2, Fig. 3; §3.3 Fig. 5]. Decisions: D-olive-43 (what three sigma is), D-olive-44
(which normal values are pruned), D-olive-45 (biases of the compared formats, `abfloat.bias_above`), D-olive-30 (a
tensor without a spread has no outliers), D-olive-47 (NaN and infinity). Sums are float64, left to right in C order.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import prng
from refemu.arith.checks import Refused, require_choice
from refemu.arith.dot import Sequential, total64
from refemu.formats.element import Element
from refemu.formats.nearest import exact, require_finite

Per: TypeAlias = Literal["tensor", "row"]  #: what has as many zeros as outliers


@dataclass(frozen=True)
class TensorStatistics:
    """Spread of a tensor's values [olive Fig. 2]."""

    count: int  #: of elements
    sigma: float  #: standard deviation about the mean, count - 1 in the denominator; 0 without a spread
    max_sigma: float  #: largest magnitude over sigma; 0 without a spread
    beyond_three: float  #: share of the elements beyond 3 sigma, 0 to 1
    beyond_six: float  #: share beyond 6 sigma


@dataclass(frozen=True)
class PairStatistics:
    """Pairs of neighbours by the number of outliers among them [olive Tbl. 2]."""

    normal_normal: int
    outlier_normal: int
    outlier_outlier: int

    @property
    def pairs(self) -> int:
        """All pairs."""
        return self.normal_normal + self.outlier_normal + self.outlier_outlier

    @property
    def shares(self) -> tuple[float, float, float]:
        """Normal-normal, outlier-normal and outlier-outlier pairs as shares of all, 0 to 1."""
        return self.normal_normal / self.pairs, self.outlier_normal / self.pairs, self.outlier_outlier / self.pairs

    @property
    def independent(self) -> float:
        """The share of outlier-outlier pairs if outliers fell anywhere: the squared share of outliers."""
        share = (self.outlier_normal + 2 * self.outlier_outlier) / (2 * self.pairs)
        return share * share


def tensor_statistics(x: ArrayLike, center: bool = False) -> TensorStatistics:
    """Sigma of the whole tensor, its largest magnitude in sigma, and the shares beyond 3 and 6 sigma.

    x: integers or floats of any shape, at least one element, finite; rounded to float32 first.
    center: magnitudes are taken from the mean instead of from 0 (D-olive-43).
    Raises TypeError for another dtype, ValueError for an empty tensor, NaN and infinity.
    """
    size, sigma = _sizes(_values(x, "tensor_statistics"), center)
    three, six = (int(np.count_nonzero(_beyond(size, factor, sigma))) / size.size for factor in (3, 6))
    return TensorStatistics(size.size, sigma, float(size.max()) / sigma if sigma else 0.0, three, six)


def pair_statistics(x: ArrayLike, sigma: float = 3, axis: int = -1, center: bool = False) -> PairStatistics:
    """Pairs (2k, 2k + 1) along `axis` by how many of both exceed `sigma` standard deviations of the whole tensor.

    x, center: as for `tensor_statistics`; a value exactly there is normal, a last odd element is left out.
    sigma: above 0. Rejects fewer than two elements along `axis` as well.
    """
    values, factor = _values(x, "pair_statistics"), _positive(sigma, "pair_statistics", "sigma")
    size, deviation = _sizes(values, center)
    left, right = _pairs(_beyond(size, factor, deviation), axis, "pair_statistics")
    if left.size == 0:
        raise Refused(f"pair_statistics: at least two elements along axis {axis} are needed, got shape {values.shape}")
    both, some = int(np.count_nonzero(left & right)), int(np.count_nonzero(left | right))
    return PairStatistics(left.size - some, some - both, both)


def threshold(x: ArrayLike, sigma: float = 3) -> float:
    """`sigma` standard deviations of `x`, beyond which a value is an outlier; infinity where there is no spread.

    x: as for `tensor_statistics`. sigma: above 0.
    """
    factor = _positive(sigma, "threshold", "sigma")
    _, deviation = _sizes(_values(x, "threshold"), False)
    return factor * deviation if deviation else float("inf")


def clip_outliers(x: ArrayLike, limit: float | None = None) -> np.ndarray:
    """`x` with every outlier moved to fl32(limit) of its sign [olive Fig. 3]. Returns float32, same shape.

    x: as for `tensor_statistics`. limit: magnitude beyond which a value is an outlier, by default `threshold(x)`.
    """
    values = _values(x, "clip_outliers")
    bound = _limit(values, limit, "clip_outliers")
    with np.errstate(over="ignore"):
        clipped = np.copysign(np.float32(bound), values)
    return np.where(_outliers(values, bound), clipped, values)


def prune_victims(x: ArrayLike, limit: float | None = None, axis: int = -1) -> np.ndarray:
    """`x` with 0 for the smaller of every pair that holds an outlier, be it an outlier or not [olive §2.3, Fig. 3].

    Of equal magnitudes the right one stays, as in [olive Alg. 1]. x, limit: as for `clip_outliers`. axis: pairs are
    elements 2k and 2k + 1 along it; a last odd element stays. Returns float32, same shape.
    """
    values = _values(x, "prune_victims").copy()
    bound = _limit(values, limit, "prune_victims")
    left, right = _pairs(values, axis, "prune_victims")
    hit = _outliers(left, bound) | _outliers(right, bound)
    left_stays = np.abs(left) > np.abs(right)
    left[hit & ~left_stays] = 0
    right[hit & left_stays] = 0
    return values


def prune_normals(
    x: ArrayLike, seed: int, limit: float | None = None, start: int = 0, per: Per = "tensor"
) -> np.ndarray:
    """`x` with 0 for as many normal values as it has outliers, those with the smallest random words [olive Fig. 3].

    x, limit: as for `clip_outliers`. seed: of `prng.words`; element i in C order has the word start + i, ties go to
    the lower i (D-olive-44). per: "tensor", or "row": in every row of the last axis as many as that row has outliers.
    Where there are fewer normal values than outliers all of them become 0. Returns float32, same shape.
    """
    values = _values(x, "prune_normals").copy()
    require_choice(per, get_args(Per), "prune_normals", "per")
    rows = values.reshape(-1, values.shape[-1] if per == "row" and values.ndim else values.size)
    outliers = _outliers(rows, _limit(values, limit, "prune_normals"))
    words = prng.words(seed, start, values.size).reshape(rows.shape)
    for row, word, mask in zip(rows, words, outliers, strict=True):
        row[_smallest(word, ~mask, int(np.count_nonzero(mask)))] = 0
    return values


def outlier_rounding_error(maxima_in_sigma: Any, outlier: Element, normal: int) -> float:
    """Mean error, in sigma, of the largest values of tensors in the format `outlier` [olive §3.3, Fig. 5].

    maxima_in_sigma: one per tensor, at least one. normal: the largest normal value N, which is at 3 sigma: a maximum m
    is x = m * N / 3 in grid units, and its error |round(x) - x| * 3 / N, in float64.
    """
    maxima = exact(maxima_in_sigma, "outlier_rounding_error").astype(np.float64).reshape(-1)
    if maxima.size == 0 or normal < 1:
        raise Refused(
            "outlier_rounding_error: at least one maximum and normal >= 1 are needed, got "
            f"{maxima.size} maxima, normal={normal}"
        )
    x = maxima * normal / 3
    errors = np.abs(outlier.round(x) - x) * 3 / normal
    return float(total64(errors, order=Sequential())) / errors.size


def _values(x: ArrayLike, thing: str) -> np.ndarray:
    """`x` as finite float32, C order, at least one element."""
    with np.errstate(over="ignore", under="ignore"):
        values = require_finite(exact(x, thing).astype(np.float32, order="C"), thing)
    if values.size == 0:
        raise Refused(f"{thing}: at least one element is needed, got shape {values.shape}")
    return values


def _sizes(values: np.ndarray, center: bool) -> tuple[np.ndarray, float]:
    """Magnitudes, float64, and the standard deviation, 0 for one element (D-olive-43)."""
    wide = values.astype(np.float64)
    mean = float(total64(wide.reshape(-1), order=Sequential())) / wide.size
    off = wide - mean
    squares = float(total64((off * off).reshape(-1), order=Sequential()))
    return np.abs(off if center else wide), float(np.sqrt(squares / max(wide.size - 1, 1)))


def _beyond(size: np.ndarray, factor: float, sigma: float) -> np.ndarray:
    """Mask of the outliers by magnitude; empty if there is no spread (D-olive-30)."""
    return (size > factor * sigma) & (sigma > 0)


def _outliers(values: np.ndarray, bound: float) -> np.ndarray:
    return np.abs(values).astype(np.float64) > bound


def _limit(values: np.ndarray, limit: float | None, thing: str) -> float:
    return threshold(values) if limit is None else _positive(limit, thing, "limit")


def _positive(value: float, thing: str, name: str) -> float:
    if not value > 0:
        raise Refused(f"{thing}: {name} must be above 0, got {value}")
    return float(value)


def _pairs(values: np.ndarray, axis: int, thing: str) -> tuple[np.ndarray, np.ndarray]:
    """Views of the left and the right elements of all pairs along `axis`."""
    if not -values.ndim <= axis < values.ndim:
        raise Refused(f"{thing}: axis {axis} is not one of shape {values.shape}")
    lines = np.moveaxis(values, axis, -1)
    even = lines.shape[-1] // 2 * 2
    return lines[..., 0:even:2], lines[..., 1:even:2]


def _smallest(words: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` smallest allowed words, or of all allowed ones if they are fewer; ties by index."""
    places = np.flatnonzero(allowed)
    cut = min(((2 * count + 64) << 64) // max(places.size, 1), (1 << 64) - 1)  # twice as many words as needed are below
    few = places[words[places] <= np.uint64(cut)]
    if few.size >= count:
        places = few
    return places[np.argsort(words[places], kind="stable")[:count]]
