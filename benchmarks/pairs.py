"""Paired timing: rival and refemu alternate in one process on the same data; the result is the median ratio."""

import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import refemu

PAIRS, SAMPLE = 9, 2e-3  #: pairs per row; shortest sample in seconds


@dataclass(frozen=True)
class Row:
    """One line of the table. ratio > 1 means that refemu is faster than the rival."""

    id: str
    what: str
    rival: str
    ours_s: float  #: median seconds of one call
    rival_s: float
    ratio: float  #: median over the pairs of rival / ours
    low: float  #: 10th percentile of the pairs
    high: float  #: 90th percentile
    goal: float  #: the ratio aimed at; 0 = none
    first_s: float  #: first call of ours, compiling included
    checked: bool  #: the results were compared and right
    peak_mb: float  #: largest resident memory of the process so far

    def record(self) -> dict[str, Any]:
        return asdict(self)


def pairs(
    id: str,
    what: str,
    rival_name: str,
    rival: Callable[[], Any],
    ours: Callable[[], Any],
    check: Callable[[Any, Any], bool],
    goal: float = 0.0,
    count: int = PAIRS,
    clock: Callable[[], float] = time.thread_time,
) -> Row:
    """Time `rival()` and `ours()` alternately. check(rival result, our result) says whether ours is right.

    clock: seconds of this thread, which a busy neighbour does not stretch; `time.perf_counter` for work that waits
    for files or other threads.
    """
    begin = time.perf_counter()
    result = ours()
    first = time.perf_counter() - begin
    checked = bool(check(rival(), result))
    for call in (rival, ours, rival, ours):
        call()
    loops = [_loops(rival, clock), _loops(ours, clock)]
    samples = [(_sample(rival, loops[0], clock), _sample(ours, loops[1], clock)) for _ in range(count)]
    ratios = sorted(theirs / mine for theirs, mine in samples)
    return Row(
        id,
        what,
        rival_name,
        statistics.median(mine for _, mine in samples),
        statistics.median(theirs for theirs, _ in samples),
        statistics.median(ratios),
        ratios[len(ratios) // 10],
        ratios[-1 - len(ratios) // 10],
        goal,
        first,
        checked,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    )


def _loops(call: Callable[[], Any], clock: Callable[[], float]) -> int:
    seconds = max(_sample(call, 1, clock), 1e-7)
    return max(1, round(SAMPLE / seconds))


def _sample(call: Callable[[], Any], loops: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(loops):
        call()
    return (clock() - begin) / loops


def report(rows: list[Row]) -> str:
    """The table for people."""
    lines = [
        f"{'row':10} {'operation':52} {'instead':34} {'ratio':>7} {'p10':>6} {'p90':>6} {'goal':>5}  "
        f"{'':8} {'ours':>10} {'first call':>10}"
    ]
    for row in rows:
        verdict = "WRONG" if not row.checked else "" if not row.goal else "met" if row.ratio >= row.goal else "missed"
        lines.append(
            f"{row.id:10} {row.what:52} {row.rival:34} {row.ratio:7.2f} {row.low:6.2f} {row.high:6.2f} "
            f"{round(row.goal, 2) or '':>5}  {verdict:8} {_seconds(row.ours_s):>10} {_seconds(row.first_s):>10}"
        )
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


def context() -> dict[str, Any]:
    """What a reader needs to relate two runs."""
    import llvmlite
    import numba

    source, target = np.zeros(1 << 24, np.uint8), np.zeros(1 << 24, np.uint8)
    np.copyto(target, source)
    copy = 2 * source.nbytes / _sample(lambda: np.copyto(target, source), 8, time.thread_time)
    return {
        "refemu": refemu.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "copy_gb_s": round(copy / 1e9, 1),
    }
