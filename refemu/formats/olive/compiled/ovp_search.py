"""Compiled form of ovp_search: same arguments, equal results, and threads. Read ovp_search.py first.

Paper: [olive §3.4]. The kernels take all candidates of a row side by side, so each sum keeps its order (D-olive-28).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.sums_compiled import total64
from refemu.formats.integer import IntFormat
from refemu.formats.olive import ovp_search
from refemu.formats.olive.kernels import ovp
from refemu.formats.olive.ovp import Ovp
from refemu.formats.olive.ovp_search import Base, Per, Problem, Search, choose, prepare, prepare_all, range_of

WORK = 1 << 24  # element-candidates per task: some 10 ms
LANES = 16  # candidates side by side in one register; rows of fewer candidates are shared out by these

Progress = Callable[[int, int], None]  #: called with what is done and what there is, in element-candidates


def search(
    x: ArrayLike,
    fmt: Ovp,
    per: Per = "row",
    base: Base = "sigma",
    low: int = 75,
    high: int = 250,
    step: int = 2,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Search:
    """`ovp_search.search`; `threads` share out rows and candidates, and the result does not depend on them."""
    if ovp.plan(fmt) is None:
        return ovp_search.search(x, fmt, per, base, low, high, step)
    return _searched(prepare(x, fmt, per, base, range_of(low, high, step), total64), threads, progress)


def _searched(problem: Problem, threads: int, progress: Progress | None) -> Search:
    plan = ovp.plan(problem.format)
    assert plan is not None
    return problem.best(_errors(problem, plan, threads, progress))


def select(
    x: ArrayLike,
    formats: Sequence[Ovp],
    per: Per = "row",
    base: Base = "sigma",
    low: int = 75,
    high: int = 250,
    step: int = 2,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> tuple[Ovp, Search]:
    """`ovp_search.select`; `progress` starts again with each format."""
    if any(ovp.plan(fmt) is None for fmt in formats):
        return ovp_search.select(x, formats, per, base, low, high, step)
    problems = prepare_all(x, formats, per, base, range_of(low, high, step), total64)
    return choose([(problem.format, _searched(problem, threads, progress)) for problem in problems])


def _errors(problem: Problem, plan: ovp.Plan, threads: int, progress: Progress | None) -> np.ndarray:
    """(R, C) float64 squared errors of every row and candidate."""
    run = ovp.errors_integer if isinstance(problem.format.normal, IntFormat) else ovp.errors_flint4
    special = ovp.special(problem.format)
    candidates = _usable(problem)
    errors: np.ndarray = np.zeros(problem.scales.shape, np.float64)

    def task(part: tuple[slice, slice]) -> int:
        rows, scales = problem.rows[part[0]], candidates[part]
        spare = -scales.shape[1] % ovp.LIKELY  # the last candidate once more, so that registers are full
        scales = np.pad(scales, ((0, 0), (0, spare)), "edge")
        sums: np.ndarray = np.full(scales.shape, np.inf)
        with np.errstate(over="ignore"):  # a quotient beyond float32 saturates; only interpreted kernels would warn
            run(rows, scales, sums, plan, special)
        errors[part] = sums[:, : sums.shape[1] - spare]
        return rows.shape[1] * errors[part].size

    done, whole = 0, problem.rows.shape[1] * problem.scales.size
    with ThreadPoolExecutor(threads) as pool:
        for size in pool.map(task, _parts(problem, threads)):
            done += size
            if progress is not None:
                progress(done, whole)
    return errors


def _usable(problem: Problem) -> np.ndarray:
    """The scales, those of skipped candidates replaced by the row's first usable one: what they give bounds no other.

    A row without a usable one keeps scale 1.
    """
    first = np.argmax(problem.usable, axis=1)
    return np.where(problem.usable, problem.scales, problem.scales[np.arange(len(first)), first][:, None])


def _parts(problem: Problem, threads: int) -> Iterator[tuple[slice, slice]]:
    """Rows in portions; where there are fewer rows than threads, candidates in portions too."""
    count, candidates = problem.scales.shape
    rows = max(1, WORK // (problem.rows.shape[1] * candidates))
    lanes = LANES if count < threads else candidates
    for row in range(0, count, rows):
        for lane in range(0, candidates, lanes):
            yield slice(row, row + rows), slice(lane, lane + lanes)
