"""Choice of the values that KLLM keeps in fp16: the k largest and smallest of a vector, or beyond thresholds.

Paper: [kllm §III-A, §IV-C, §V-A]. Decisions: D-kllm-21, D-kllm-26 (ties and overlap of the two ends), D-kllm-24 (k),
D-kllm-30 (static thresholds). Selection here is an order, by sorting; the unit that finds it is Orizuru.
"""

from fractions import Fraction
from math import ceil
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused, RefusedType, require_choice, require_int
from refemu.arith.exact import steps
from refemu.arith.records import parameters, plain_fields
from refemu.formats.kllm.kmeans_train import nearest16

ThresholdStatistic: TypeAlias = Literal["mean", "pooled"]  #: over tokens one by one, or over all values (D-kllm-30)


@parameters(repr=False)
class TopK:
    """Outliers of every vector: its k largest and its k smallest values (KLLM), per side, not together.

    k per side is ceil(N * percent / 200), exactly (D-kllm-24), or k itself.

    References
    ----------
    [kllm §III-A, §IV-C]
    """

    #: of both sides together, an int, Fraction, decimal text or float (read as it prints)
    percent: int | float | str | Fraction | None = None
    k: int | None = None  #: outliers per side, instead of a percentage

    def __post_init__(self) -> None:
        plain_fields(self)
        if (self.percent is None) == (self.k is None):
            raise Refused(f"TopK: either percent or k is needed, got percent={self.percent!r}, k={self.k!r}")
        if self.k is not None:
            require_int(self.k, 0, 1 << 31, "TopK", "k")
        else:
            object.__setattr__(self, "percent", _percent(self.percent))

    def count(self, n: int) -> int:
        """Number of outliers per side.

        Parameters
        ----------
        n : int
            Values of a vector.

        Returns
        -------
        int
            k.
        """
        return self.k if self.k is not None else ceil(cast(Fraction, self.percent) * n / 200)

    def require(self, n: int) -> int:
        """Number of outliers per side, checked.

        Parameters
        ----------
        n : int
            Values of a vector.

        Returns
        -------
        int
            k.

        Raises
        ------
        Refused
            2k is not below n.
        """
        k = self.count(n)
        if 2 * k >= n:
            raise Refused(f"{self}: 2k must be below the {n} values of a vector, got k={k}; use outliers=None")
        return k

    def mask(self, x: np.ndarray) -> np.ndarray:
        """Mark the outliers of vectors.

        Largest: by (value descending, position ascending). Smallest: by (value ascending, pair of neighbours ascending,
        odd position first), the order that reversed comparisons of neighbours give (D-kllm-21). An element may be both
        (D-kllm-26).

        Parameters
        ----------
        x : ndarray of float32 (..., N)
            Finite values.

        Returns
        -------
        ndarray of bool (..., N)
            True at outliers.

        Raises
        ------
        Refused
            2k is not below N.
        """
        n, k = x.shape[-1], self.require(x.shape[-1])
        swapped = np.minimum(np.arange(n) ^ 1, n - 1)  # of an odd number the last has no neighbour
        largest = np.argsort(-x, axis=-1, kind="stable")[..., :k]
        smallest = swapped[np.argsort(x[..., swapped], axis=-1, kind="stable")[..., :k]]
        mask = np.zeros(x.shape, np.bool_)
        np.put_along_axis(mask, largest, True, axis=-1)
        np.put_along_axis(mask, smallest, True, axis=-1)
        return mask

    def __repr__(self) -> str:
        return f"TopK(k={self.k})" if self.k is not None else f"TopK(percent='{self.percent}')"


@parameters
class Thresholds:
    """Static thresholds (KLLM-S): an outlier is x > hi or x < lo; a value equal to a threshold is none (D-kllm-30).

    References
    ----------
    [kllm §V-A]
    """

    hi: float  #: an fp16 value
    lo: float  #: an fp16 value, at most hi

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in ("hi", "lo"):
            object.__setattr__(self, name, _threshold(getattr(self, name), name))
        if self.hi < self.lo:
            raise Refused(f"Thresholds: hi must be at least lo, got {self.hi}, {self.lo}")

    def mask(self, x: np.ndarray) -> np.ndarray:
        """Mark the outliers of vectors.

        Parameters
        ----------
        x : ndarray of float32
            Values.

        Returns
        -------
        ndarray of bool, shape of x
            True at outliers.
        """
        return (x > self.hi) | (x < self.lo)

    @property
    def scale(self) -> float:
        """Scale of every vector, max(|hi|, |lo|); 1 if that is 0 (D-kllm-11)."""
        return max(abs(self.hi), abs(self.lo)) or 1.0


class ThresholdCalibration:
    """Static thresholds from calibration data that comes in parts (D-kllm-30). Exact, so the parts do not matter.

    Statistic "mean": per token the largest (smallest) value that `outliers` leaves, averaged over the tokens as an
    exact rational, rounded once to fp16. "pooled": rank ceil(total * percent / 200) + 1 of all values from either end.

    References
    ----------
    [kllm §V-A]
    """

    def __init__(self, outliers: TopK, statistic: ThresholdStatistic = "mean") -> None:
        """Begin without tokens.

        Parameters
        ----------
        outliers : TopK
            Dynamic selection that the thresholds stand for.
        statistic : {"mean", "pooled"}
            "pooled" needs a percentage.

        Raises
        ------
        Refused
            An unknown statistic, or "pooled" without a percentage.
        """
        self.statistic = require_choice(statistic, get_args(ThresholdStatistic), "ThresholdCalibration", "statistic")
        if statistic == "pooled" and outliers.percent is None:
            raise Refused(f"ThresholdCalibration: pooled needs TopK(percent=...), got {outliers}")
        self.outliers = outliers
        self.tokens: int = 0
        self._high = self._low = 0  # sums, in units of 2**-24
        self._counts = np.zeros(1 << 16, np.int64)  # of all values, by order key

    def add(self, x: ArrayLike) -> None:
        """Take in tokens.

        Parameters
        ----------
        x : array_like of float16 or float32 (..., N)
            fp16 values, finite.

        Raises
        ------
        Refused
            NaN, infinity, other values, or too short vectors.
        RefusedType
            Another dtype.
        """
        values = require_values(x, "ThresholdCalibration")
        tokens = values.reshape(-1, values.shape[-1])
        if self.statistic == "pooled":
            self._counts += np.bincount(_keys(tokens).ravel(), minlength=1 << 16)
        else:
            k = self.outliers.require(tokens.shape[-1])
            ranked = np.sort(tokens, axis=-1, kind="stable")
            self._high += int(integers.total(steps(ranked[:, -1 - k])))
            self._low += int(integers.total(steps(ranked[:, k])))
        self.tokens += tokens.shape[0]

    def thresholds(self) -> Thresholds:
        """Thresholds of everything added so far.

        Returns
        -------
        Thresholds
            fp16 values.

        Raises
        ------
        Refused
            There was no token.
        """
        if not self.tokens:
            raise Refused("ThresholdCalibration: no tokens")
        if self.statistic == "mean":
            hi, lo = (nearest16(Fraction(total, self.tokens << 24)) for total in (self._high, self._low))
            return Thresholds(hi, lo)
        above = np.cumsum(self._counts)
        rank = self.outliers.count(int(above[-1])) + 1
        ends = np.searchsorted(above, int(above[-1]) - rank, side="right"), np.searchsorted(above, rank, side="left")
        hi, lo = (_value(int(key)) for key in ends)
        return Thresholds(hi, lo)


def require_values(x: ArrayLike, thing: str, axis: int = -1) -> np.ndarray:
    """x as fp16-valued float32 with a nonempty axis `axis`; rejects NaN, infinity, other values."""
    values = fp16.require_fp16_values(x, thing, "x")
    if values.ndim == 0:
        raise RefusedType(f"{thing}: x must have at least one axis, got a scalar")
    require_int(axis, -values.ndim, values.ndim - 1, thing, "axis")
    bad = ~np.isfinite(values)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Refused(f"{thing}: x must be finite, got {values[index]!s} at index {index}")
    if not values.shape[axis]:
        raise Refused(f"{thing}: vectors must not be empty, got shape {values.shape}")
    return values


def _keys(x: np.ndarray) -> np.ndarray:
    """Order keys of fp16 values, from 0 up."""
    return fp16.order_key(fp16.to_f16(x)) + 0x8000


def _value(key: int) -> float:
    """The value of a key."""
    word = key - 0x8000 if key >= 0x8000 else (0x8000 - key) | 0x8000
    return float(fp16.values(np.asarray(word)))


def _percent(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise RefusedType(f"TopK: percent must be a number or its text, got {value!r}")
    try:
        percent = Fraction(repr(float(value)) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError):
        raise Refused(f"TopK: percent must be a number, got {value!r}") from None
    if not 0 <= percent < 100:
        raise Refused(f"TopK: percent must be in [0, 100), got {value}")
    return percent


def _threshold(threshold: Any, name: str) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.floating):
        raise RefusedType(f"Thresholds: {name} must be a number, got {threshold!r}")
    value = float(threshold)
    if not np.isfinite(value) or float(fp16.narrow(np.asarray(value))) != value:
        raise Refused(f"Thresholds: {name} must be a finite fp16 value, got {value}")
    return value
