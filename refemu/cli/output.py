"""Tables for people, JSON for machines, progress on a terminal only."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refemu.cli import table

PIPE_WIDTH = 200  #: columns of a table that goes to a file or pipe

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)


def print_lines(lines: Iterable[str]) -> None:
    """Text that has its newlines, to standard output; nowhere where the shell closed that."""
    if sys.stdout is not None:
        sys.stdout.writelines(lines)


def escape_unprintable() -> None:
    """Let standard output and error escape what their encoding lacks, as `\\xa7`, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_json(value: Any) -> None:
    """One JSON document on standard output; bytes as lists of integers, fractions as text."""
    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True, default=_plain))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, bytes) else str(value)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """A table; columns named in `right` are numbers. Bold only on a terminal, and not under NO_COLOR."""
    terminal = _is_terminal(sys.stdout)
    bold = "\x1b[1m{}\x1b[0m" if terminal and "NO_COLOR" not in os.environ else "{}"
    width = _columns() if terminal else PIPE_WIDTH
    header, *others = table.lines(columns, [[str(cell) for cell in row] for row in rows], right, width)
    print("\n".join([bold.format(title), bold.format(header), *others, ""]))


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())  # None where the shell closed it


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A progress callable that draws bars on standard error; None where that is no terminal."""
    if not _is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield update


def size(count: int) -> str:
    """A number of bytes for people: 98.4 MB."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
