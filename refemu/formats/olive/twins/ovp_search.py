"""Compiled twin of ovp_search: same arguments, equal results, and threads. Read ovp_search.py first.

Paper: [olive §3.4]. The kernels take all candidates of a row side by side, so each sum keeps its order (D-olive-28).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.sums_jit import total64
from refemu.formats.integer import IntFormat
from refemu.formats.olive import ovp_search
from refemu.formats.olive.kernels import ovp
from refemu.formats.olive.ovp import Ovp
from refemu.formats.olive.ovp_search import Base, Per, Problem, Search, choose, prepare, range_of

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
    plan = ovp.plan(fmt)
    if plan is None:
        return ovp_search.search(x, fmt, per, base, low, high, step)
    problem = prepare(x, fmt, per, base, range_of(low, high, step), total64)
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
    return choose(
        [(fmt, search(x, fmt, per, base, low, high, step, threads=threads, progress=progress)) for fmt in formats]
    )


def _errors(problem: Problem, plan: ovp.Plan, threads: int, progress: Progress | None) -> np.ndarray:
    """(R, C) float64 squared errors of every row and candidate."""
    run = ovp.errors_integer if isinstance(problem.format.normal, IntFormat) else ovp.errors_flint4
    special = ovp.special(problem.format)
    errors = np.zeros(problem.scales.shape, np.float64)

    def task(part: tuple[slice, slice]) -> int:
        rows, scales = problem.rows[part[0]], np.ascontiguousarray(problem.scales[part])
        sums = np.zeros(scales.shape, np.float64)
        with np.errstate(over="ignore"):  # a quotient beyond float32 saturates; only interpreted kernels would warn
            run(rows, scales, sums, plan, special)
        errors[part] = sums
        return rows.shape[1] * scales.size

    done, whole = 0, problem.rows.shape[1] * problem.scales.size
    with ThreadPoolExecutor(threads) as pool:
        for size in pool.map(task, _parts(problem, threads)):
            done += size
            if progress is not None:
                progress(done, whole)
    return errors


def _parts(problem: Problem, threads: int) -> Iterator[tuple[slice, slice]]:
    """Rows in portions; where there are fewer rows than threads, candidates in portions too."""
    count, candidates = problem.scales.shape
    rows = max(1, WORK // (problem.rows.shape[1] * candidates))
    lanes = LANES if count < threads else candidates
    for row in range(0, count, rows):
        for lane in range(0, candidates, lanes):
            yield slice(row, row + rows), slice(lane, lane + lanes)
