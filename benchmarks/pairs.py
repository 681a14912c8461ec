"""Paired timing: rival and refemu alternate in one process on the same data; the result is the median ratio."""

import os
import statistics
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

SMALLEST = "REFEMU_BENCH_SMALLEST"  #: environment variable of `--smallest`: 1 = every row once, with little work
PAIRS, SAMPLE = 9, 2e-3  #: pairs per row; shortest sample in seconds

first_calls_only = False  #: set in a child process that measures first calls only; see `apart`

T = TypeVar("T")


def smallest() -> bool:
    """Whether rows only have to work: nothing is repeated."""
    return os.environ.get(SMALLEST) == "1"


def size(full: T, least: T) -> T:
    """The size of a workload: `least` under `--smallest`."""
    return least if smallest() else full


@dataclass(frozen=True)
class Row:
    """One line of the table. ratio > 1 means that refemu is faster than the rival, or than the goal allows."""

    id: str
    what: str
    rival: str
    ours_s: float  #: median seconds of one call
    rival_s: float
    ratio: float  #: median over the pairs of rival / ours
    low: float  #: 10th percentile of the pairs
    high: float  #: 90th percentile
    goal: float  #: the ratio aimed at; 0 = none
    first_s: float  #: first call of ours in a process: code from the cache where `cold_s` is known, else compiled
    checked: bool  #: the results were compared and right
    peak_mb: float  #: most memory that one call of ours held of what Python and NumPy allocate
    cold_s: float = 0.0  #: first call without a cache, in a separate process; 0 = not measured
    compile_s: float = 0.0  #: the part of `cold_s`, or else of `first_s`, that numba's compiler took
    threads: int = 1  #: threads of both sides
    series: str = ""  #: what grows, in rows that belong to a series
    size: float = 0.0  #: how large it is in this row

    @property
    def key(self) -> str:
        """Identity of the row from run to run, without rates that follow a colon."""
        return f"{self.id} | {self.what.partition(':')[0]} | {self.rival} | {self.threads}"

    @property
    def outcome(self) -> str:
        """wrong, met, missed, or "" without a goal."""
        if not self.checked:
            return "WRONG"
        return "" if not self.goal else "met" if self.ratio >= self.goal else "missed"

    def times(self, work: float, goal: float) -> "Row":
        """The row of a rival with `work` times the work."""
        return replace(
            self,
            rival_s=self.rival_s * work,
            ratio=self.ratio * work,
            low=self.low * work,
            high=self.high * work,
            goal=goal,
        )

    def record(self) -> dict[str, Any]:
        """For a JSON line."""
        return {**asdict(self), "outcome": self.outcome.lower() or "no goal"}


@dataclass(frozen=True)
class Absent:
    """A row that could not be measured here, and why."""

    id: str
    what: str
    reason: str  #: "not installed: pip install ..."


@dataclass(frozen=True)
class Broken:
    """A row that ended with an exception."""

    id: str
    what: str
    error: str  #: the last line of the traceback


AnyRow = Row | Absent | Broken


def guarded(id: str, what: str, rows: Callable[[], Iterable[AnyRow]]) -> list[AnyRow]:
    """`rows()`, or one row with the exception that ended it; its traceback goes to stderr."""
    try:
        return list(rows())
    except Exception as error:
        traceback.print_exc()
        return [Broken(id, what, f"{type(error).__name__}: {error}".splitlines()[0])]


@dataclass(frozen=True)
class First:
    """The first call in this process."""

    seconds: float
    compiling: float
    result: Any


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
    **more: Any,
) -> Row:
    """Time `rival()` and `ours()` alternately. check(rival result, our result) says whether ours is right.

    clock: seconds of this thread, which a busy neighbour does not stretch; `time.perf_counter` for work that waits
    for files or other threads. more: further fields of the row.
    """
    first = first_call(ours)
    if first_calls_only:
        return row(id, what, rival_name, [(first.seconds, first.seconds)], first, goal, True, **more)
    checked = bool(check(rival(), first.result))
    if smallest():
        return row(id, what, rival_name, [(first.seconds, first.seconds)], first, goal, checked, **more)
    for call in (rival, ours, rival, ours):
        call()
    loops = [_loops(rival, clock), _loops(ours, clock)]
    samples = [(sample(rival, loops[0], clock), sample(ours, loops[1], clock)) for _ in range(count)]
    return row(id, what, rival_name, samples, first, goal, checked, peak_mb=peak_mb(ours), **more)


def absolute(
    id: str,
    what: str,
    goal_text: str,
    allowed: float,
    ours: Callable[[], Any],
    check: Callable[[Any], bool],
    count: int = PAIRS,
    clock: Callable[[], float] = time.thread_time,
) -> Row:
    """A row with a number as rival: `allowed` seconds of the goal over the measured ones, met from 1 on."""
    first = first_call(ours)
    if first_calls_only:
        return row(id, what, goal_text, [(allowed, first.seconds)], first, 1.0, True)
    checked = bool(check(first.result))
    if smallest():
        return row(id, what, goal_text, [(allowed, first.seconds)], first, 1.0, checked)
    ours(), ours()
    loops = _loops(ours, clock)
    samples = [(allowed, sample(ours, loops, clock)) for _ in range(count)]
    return row(id, what, goal_text, samples, first, 1.0, checked, peak_mb=peak_mb(ours))


def row(
    id: str,
    what: str,
    rival: str,
    samples: Sequence[tuple[float, float]],
    first: First,
    goal: float,
    checked: bool,
    peak_mb: float = 0.0,
    **more: Any,
) -> Row:
    """The row of pairs of seconds (rival, ours)."""
    ratios = sorted(theirs / mine for theirs, mine in samples)
    edge = len(ratios) // 10
    return Row(
        id,
        what,
        rival,
        statistics.median(mine for _, mine in samples),
        statistics.median(theirs for theirs, _ in samples),
        statistics.median(ratios),
        ratios[edge],
        ratios[-1 - edge],
        goal,
        first.seconds,
        checked,
        peak_mb,
        compile_s=first.compiling,
        **more,
    )


def first_call(call: Callable[[], Any]) -> First:
    """`call()` with its seconds, and the seconds in numba's compiler."""
    from numba.core import event

    with event.install_recorder("numba:compile") as compiler:
        begin = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - begin
    return First(seconds, _outermost([(stamp, found.is_start) for stamp, found in compiler.buffer]), result)


def _outermost(marks: Sequence[tuple[float, bool]]) -> float:
    """Seconds between starts and ends that no other pair encloses: a kernel compiles those that it calls."""
    depth, total = 0, 0.0
    for stamp, starts in marks:
        if starts:
            total -= stamp if depth == 0 else 0.0
            depth += 1
        else:
            depth -= 1
            total += stamp if depth == 0 else 0.0
    return total


def _loops(call: Callable[[], Any], clock: Callable[[], float]) -> int:
    seconds = max(sample(call, 1, clock), 1e-7)
    return max(1, round(SAMPLE / seconds))


def sample(call: Callable[[], Any], loops: int, clock: Callable[[], float]) -> float:
    """Seconds of one of `loops` calls."""
    begin = clock()
    for _ in range(loops):
        call()
    return (clock() - begin) / loops


def peak_mb(call: Callable[[], Any]) -> float:
    """Megabytes that one call holds at most, of what Python and NumPy allocate; its arguments are not counted."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
