"""Scale and type of an outlier-victim-pair format by the least squared error, starting from three sigma.

Paper: [olive §3.2, §3.4]. Decisions: D-olive-23 (one scale per row or per tensor), D-olive-26 (what the candidates are
multiples of), D-olive-27 (the candidates), D-olive-28 (the error and its arithmetic), D-olive-29 (type of a tensor),
D-olive-30 (constant and zero rows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, first_index, require_choice
from refemu.arith.dot import Sequential, total64
from refemu.formats.integer import IntFormat
from refemu.formats.nearest import exact, require_finite
from refemu.formats.olive.ovp import SMALLEST_NORMAL, Ovp

Per: TypeAlias = Literal["row", "tensor"]  #: what has one scale (D-olive-23)
Base: TypeAlias = Literal["sigma", "mean_sigma"]  #: the candidates are multiples of 3 sigma, or of |mean| + 3 sigma
Total = Callable[..., np.ndarray]  #: `total64` of arith.sums or of arith.sums_compiled


@dataclass(frozen=True, eq=False)
class Search:
    """The best candidate per row; arrays of shape (rows,), or () for a tensor."""

    alpha: np.ndarray  #: float32: the real value that N stands for
    scale: np.ndarray  #: float32: fl32(alpha / N), one grid unit
    ratio: np.ndarray  #: int64: percent of the base; 0 where there was no candidate (a row of zeros: scale 1)
    mse: np.ndarray  #: float64: squared error per element

    def equals(self, other: object) -> bool:
        """Equal in every bit."""
        return isinstance(other, Search) and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in zip(self._arrays(), other._arrays(), strict=True)
        )

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.alpha, self.scale, self.ratio, self.mse


@dataclass(frozen=True, eq=False)
class Problem:
    """A search made ready: the rows, and for each its candidates."""

    format: Ovp
    rows: np.ndarray  #: (R, L) float32, L even: pairs are elements 2k, 2k + 1; zeros appended where a line was odd
    shape: tuple[int, ...]  #: of the result, (R,) or ()
    count: int  #: elements of a row, appended zeros left out
    ratios: np.ndarray  #: (C,) int64, percent
    alphas: np.ndarray  #: (R, C) float32
    scales: np.ndarray  #: (R, C) float32; 1 where the candidate is skipped
    usable: np.ndarray  #: (R, C) bool: the scale is a finite normal float32

    def best(self, errors: np.ndarray) -> Search:
        """The first candidate with the least error. errors: (R, C) float64, those of skipped candidates ignored.

        A row without a usable candidate has scale 1, so its skipped candidates hold the error of all zeros.
        """
        none = ~np.any(self.usable, axis=1)
        first = np.argmin(np.where(self.usable | none[:, None], errors, np.inf), axis=1)
        row = np.arange(len(first))
        largest = np.float32(self.format.normal.largest)
        columns = (
            np.where(none, largest, self.alphas[row, first]),
            self.scales[row, first],
            np.where(none, 0, self.ratios[first]),
            errors[row, first] / self.count,
        )
        return Search(*(array.reshape(self.shape).copy() for array in columns))


def search(
    x: ArrayLike, fmt: Ovp, per: Per = "row", base: Base = "sigma", low: int = 75, high: int = 250, step: int = 2
) -> Search:
    """The scale that encodes `x` with the least squared error, for each row or for the tensor.

    x: finite, rounded to float32 first; a row is an index of the first axis, taken in C order, paired along the last
    axis. Candidates are low, low + step, ... below `high` percent of the base: fl32(3 sigma) for "sigma",
    fl32(|mean| + 3 sigma) for "mean_sigma" (D-olive-26); max|x| where sigma is 0 or the format has no outliers.
    The error is summed in float64, left to right; the first least error wins (D-olive-28).
    Raises ValueError for an empty or non-finite tensor, low >= high, step < 1, low <= 0, large values without a usable
    scale; TypeError for another dtype.
    """
    problem = prepare(x, fmt, per, base, range_of(low, high, step), total64)
    return problem.best(np.stack([squared_errors(problem, c) for c in range(len(problem.ratios))], axis=1))


def select(
    x: ArrayLike,
    formats: Sequence[Ovp],
    per: Per = "row",
    base: Base = "sigma",
    low: int = 75,
    high: int = 250,
    step: int = 2,
) -> tuple[Ovp, Search]:
    """The format with the least sum of mse over the rows, and its search; a tie goes to int (D-olive-29).

    formats: at least one, such as (OVP_INT4, OVP_FLINT4). Other arguments as for `search`.
    """
    return choose([(fmt, search(x, fmt, per, base, low, high, step)) for fmt in formats])


def choose(searches: Sequence[tuple[Ovp, Search]]) -> tuple[Ovp, Search]:
    """The pair with the least sum of mse; of equals the first with integers, else the first."""
    if not searches:
        raise Refused("select: at least one format is needed, got none")
    ordered = sorted(searches, key=lambda pair: not isinstance(pair[0].normal, IntFormat))
    sums = [float(total64(np.atleast_1d(result.mse), order=Sequential())) for _, result in ordered]
    return ordered[sums.index(min(sums))]


def squared_errors(problem: Problem, candidate: int) -> np.ndarray:
    """(R,) float64: sum over each row of (grid * scale - x)**2, left to right, for one candidate of each row."""
    scale = problem.scales[:, candidate]
    grid = problem.format.encode(problem.rows, scale).decode()
    off = grid * scale.astype(np.float64)[:, None] - problem.rows
    return total64(off * off, order=Sequential())


def prepare(x: ArrayLike, fmt: Ovp, per: Per, base: Base, ratios: range, total: Total) -> Problem:
    """Everything before the errors; arguments as for `search`."""
    require_choice(base, get_args(Base), "search", "base")
    lines = _lines(x, require_choice(per, get_args(Per), "search", "per"), fmt)
    plain = lines.reshape(len(lines), -1)
    percent = np.array([np.float32(ratio * 0.01) for ratio in ratios], np.float32)
    with np.errstate(over="ignore", under="ignore"):
        alphas = _base(plain, fmt, base, total)[:, None] * percent
        scales = alphas / np.float32(fmt.normal.largest)
    usable = np.isfinite(scales) & (scales >= SMALLEST_NORMAL)
    _refuse_unscalable(plain, usable)
    odd = lines.shape[2] % 2
    rows = np.pad(lines, ((0, 0), (0, 0), (0, odd))).reshape(len(lines), -1) if odd else plain
    shape = (len(lines),) if per == "row" else ()
    return Problem(
        fmt,
        rows,
        shape,
        plain.shape[1],
        np.array(ratios, np.int64),
        alphas,
        np.where(usable, scales, np.float32(1)),
        usable,
    )


def prepare_all(
    x: ArrayLike, formats: Sequence[Ovp], per: Per, base: Base, ratios: range, total: Total
) -> list[Problem]:
    """`prepare` for several formats; those with the same rows and the same base share them."""
    problems: list[Problem] = []
    for fmt in formats:
        like = [
            p for p in problems if (p.format.pairing, p.format.outlier is None) == (fmt.pairing, fmt.outlier is None)
        ]
        problems.append(_under(like[0], fmt) if like else prepare(x, fmt, per, base, ratios, total))
    return problems


def _under(problem: Problem, fmt: Ovp) -> Problem:
    """The rows and alphas of a problem for another format."""
    with np.errstate(over="ignore", under="ignore"):
        scales = problem.alphas / np.float32(fmt.normal.largest)
    usable = np.isfinite(scales) & (scales >= SMALLEST_NORMAL)
    _refuse_unscalable(problem.rows, usable)
    return replace(problem, format=fmt, usable=usable, scales=np.where(usable, scales, np.float32(1)))


def range_of(low: int, high: int, step: int) -> range:
    """The candidates in percent."""
    for name, value in (("low", low), ("high", high), ("step", step)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise RefusedType(f"search: {name} must be an int, got {value!r}")
    if low <= 0 or low >= high or step < 1:
        raise Refused(f"search: 0 < low < high and step >= 1 are needed, got low={low}, high={high}, step={step}")
    return range(low, high, step)


def _lines(x: ArrayLike, per: Per, fmt: Ovp) -> np.ndarray:
    """x as (rows, lines, elements) float32: pairs are inside a line."""
    with np.errstate(over="ignore", under="ignore"):
        array = require_finite(exact(x, "search").astype(np.float32), "search")
    if array.size == 0 or array.ndim < (2 if per == "row" else 1):
        need = "two axes" if per == "row" else "one axis"
        raise Refused(f"search: per={per!r} needs at least {need} and one element, got shape {array.shape}")
    rows = len(array) if per == "row" else 1
    length = array.size // rows if fmt.pairing == "flat" else array.shape[-1]
    if fmt.pairing == "flat" and length % 2:
        raise Refused(f"search: flat pairs need an even number of elements per {per}, got {length}")
    return np.ascontiguousarray(array.reshape(rows, -1, length))


def _base(rows: np.ndarray, fmt: Ovp, base: Base, total: Total) -> np.ndarray:
    """(R,) float32: what the candidates are multiples of (D-olive-26, D-olive-30)."""
    peak = np.abs(rows).max(axis=1)
    count = rows.shape[1]
    if fmt.outlier is None or count == 1:
        return peak
    wide = rows.astype(np.float64)
    mean = total(wide, order=Sequential()) / count
    off = wide - mean[:, None]
    sigma = np.sqrt(total(off * off, order=Sequential()) / (count - 1))
    start = 3 * sigma if base == "sigma" else np.abs(mean) + 3 * sigma
    with np.errstate(over="ignore", under="ignore"):
        return np.where(sigma == 0, peak, start.astype(np.float32))


def _refuse_unscalable(rows: np.ndarray, usable: np.ndarray) -> None:
    peak = np.abs(rows).max(axis=1)
    bad = ~np.any(usable, axis=1) & (peak >= 1)
    if bad.any():
        row = first_index(bad)[0]
        raise Refused(f"search: row {row}, largest magnitude {peak[row]}, has no candidate with a finite normal scale")
