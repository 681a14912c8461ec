"""Progress on standard error: bars with rate and remaining time on a terminal, else a line every ten seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from refemu.cli.output import is_terminal

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)
PERIOD = 10.0  #: seconds between lines


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress callable for the block."""
    if sys.stderr is None:
        yield lambda what, done, total: None
    elif is_terminal(sys.stderr):
        with _bars() as update:
            yield update
    else:
        yield Lines(sys.stderr)


class Lines:
    """A line for every period that passes: what is under way, its rate, and the time that is left at this rate.

    A task that ends within the first period is not mentioned.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._start = self._last = clock()
        self._tasks: dict[str, tuple[float, int, int]] = {}  #: name -> when it began, what was done then, and last

    def __repr__(self) -> str:
        return f"Lines({', '.join(self._tasks)})"

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of a task; print a line if one is due."""
        now = self._clock()
        began, before, latest = self._tasks.get(what, (now, done, done))
        if done < latest:
            began, before = now, done
        self._tasks[what] = (began, before, done)
        if now - self._last < PERIOD:
            return
        self._last = now
        left = remaining(now - began, done - before, total - done)
        print(f"refemu: {now - self._start:.0f} s, {what} {done} of {total}{left}", file=self._stream, flush=True)


def remaining(seconds: float, done: int, left: int) -> str:
    """The rate of a task, and how long the rest takes; "" while nothing is done or nothing is left.

    seconds: in which as much was done.
    """
    if done <= 0 or left <= 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f", {rate:.3g} a second, about {duration(left / rate)} left"


def duration(seconds: float) -> str:
    """Seconds or minutes for people."""
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

    class Rate(ProgressColumn):
        """Steps a second."""

        def render(self, task: Any) -> Text:
            """The rate of a task; nothing before its first step."""
            return Text(f"{task.speed:.3g}/s" if task.speed else "", style="progress.data.speed")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what in tasks and done < bars.tasks[tasks[what]].completed:
                bars.reset(tasks[what])
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield update
