"""Progress on standard error: bars with rate and remaining time on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from refemu.cli.output import is_terminal, unescaped

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)
PERIOD = 10.0  #: seconds between lines
KNOWN, LEAST = 0.05, 3  #: share and number of items of a task after which its rate is shown


@contextmanager
def progress() -> Iterator[Progress]:
    """Yield a progress callable for the block."""
    if sys.stderr is None:
        yield lambda what, done, total: None
    elif is_terminal(sys.stderr):
        with _bars() as update:
            yield update
    else:
        yield Lines(sys.stderr)


class Lines:
    """Prints a line in every period: the task, its rate, and the time left at this rate.

    A task that ends within the first period is not mentioned. The rate excludes the first item, which may compile
    kernels; it is shown once KNOWN of the other items are done.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._start = self._last = clock()
        #: name -> items done at first, start of the rate, items done then, items done last
        self._tasks: dict[str, tuple[int, float, int, int]] = {}

    def __repr__(self) -> str:
        return f"Lines({', '.join(self._tasks)})"

    def __call__(self, what: str, done: int, total: int) -> None:
        """Record the progress of a task; print a line if one is due."""
        now = self._clock()
        first, began, before, latest = self._tasks.get(what, (done, now, done, done))
        if done < latest:
            first = before = done
        if before == first:  # no item but the first has ended
            began, before = now, done
        self._tasks[what] = (first, began, before, done)
        if now - self._last < PERIOD:
            return
        self._last = now
        known = done - before >= max(LEAST, KNOWN * total)
        left = remaining(now - began, done - before, total - done) if known else ""
        print(f"refemu: {now - self._start:.0f} s, {what} {done} of {total}{left}", file=self._stream, flush=True)


def remaining(seconds: float, done: int, left: int) -> str:
    """Format the rate of a task and the time left; "" if nothing is done or nothing is left.

    seconds: time that `done` items took.
    """
    if done <= 0 or left <= 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f", {rate:.3g} a second, about {duration(left / rate)} left"


def duration(seconds: float) -> str:
    """Format a time in seconds or minutes."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} minutes"


@contextmanager
def _bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    def is_known(task: Any) -> bool:
        return bool(task.completed >= max(LEAST, KNOWN * (task.total or 0)) and task.speed)

    class Rate(ProgressColumn):
        """Items a second."""

        def render(self, task: Any) -> Text:
            """The rate of a task, once it is known."""
            return Text(f"{task.speed:.3g}/s" if is_known(task) else "", style="progress.data.speed")

    class Left(TimeRemainingColumn):
        """Time left at that rate."""

        def render(self, task: Any) -> Text:
            """The time left, once the rate is known."""
            return super().render(task) if is_known(task) else Text("")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        Left(),
    )
    with Progress(*columns, console=Console(file=unescaped(sys.stderr), highlight=False), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what in tasks and done < bars.tasks[tasks[what]].completed:
                bars.reset(tasks[what])
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield update
