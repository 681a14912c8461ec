"""Statistics over the windows of a text: means with standard errors, and differences of two schemes by window.

Windows have equal weights. The standard error of the mean of n values is sqrt(sum((x - mean)**2) / (n - 1) / n). Two
schemes are compared over the same windows: the values are the differences of their mean negative log-likelihoods, so
the difficulty of a window for both cancels out. The windows of one text are a sample of that text only. Computed in
float64, like `perplexity`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refemu.arith import dot
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential


@dataclass(frozen=True)
class Spread:
    """Values of several windows."""

    mean: float
    error: float | None  #: standard error of the mean; None for one value
    least: float
    most: float
    count: int  #: number of values


@dataclass(frozen=True)
class Change:
    """The perplexity of a scheme relative to another, over the same windows, in percent."""

    scheme: str  #: the other scheme
    percent: float  #: 100 (exp(d) - 1), d: the mean difference of the log perplexities
    error: float | None  #: its standard error, 100 exp(d) times that of d
    least: float  #: change of the window where it is least
    most: float  #: change of the window where it is greatest
    #: whether it exceeds its error times Student's t at 95 %: 3.18 with four windows, 2.36 with eight; None for one
    significant: bool | None = None


def spread(values: Sequence[float]) -> Spread:
    """Mean, standard error and range of at least one value."""
    if not values:
        raise Refused("spread: must have at least one value, got none")
    count = len(values)
    mean = _sum(np.array(values)) / count
    off = np.array(values) - mean
    error = math.sqrt(_sum(off * off) / (count - 1) / count) if count > 1 else None
    return Spread(mean, error, min(values), max(values), count)


def _sum(values: np.ndarray) -> float:
    return float(dot.total64(values, order=Sequential()))


def change(scheme: str, losses: Sequence[float], others: Sequence[float]) -> Change:
    """The change to `losses` from `others`, those of `scheme`: mean negative log-likelihoods of the same windows."""
    if len(losses) != len(others):
        raise Refused(f"spread: both schemes must have the same windows, got {len(losses)} and {len(others)}")
    difference = spread([loss - other for loss, other in zip(losses, others, strict=True)])
    error = None if difference.error is None else 100 * math.exp(difference.mean) * difference.error
    mean, count = _percent(difference.mean), difference.count
    significant = None if error is None else abs(mean) > error * student95(count - 1)
    return Change(scheme, mean, error, _percent(difference.least), _percent(difference.most), significant)


def student95(freedom: int) -> float:
    """Student's t, two-sided at 95 %."""
    from scipy import special  # here: it takes long to import

    return float(special.stdtrit(freedom, 0.975))


def _percent(difference: float) -> float:
    return 100 * math.expm1(difference)
