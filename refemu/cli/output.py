"""Tables for people, JSON for machines, progress on a terminal only."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PIPE_WIDTH = 200  #: columns of a table that goes to a file or pipe

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)


def print_json(value: Any) -> None:
    """One JSON document on standard output; bytes as lists of integers, fractions as text."""
    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True, default=_plain))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, bytes) else str(value)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """A table; columns named in `right` are numbers. Colour only on a terminal, and not under NO_COLOR."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name in right or name == columns[0],
        )
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    out = console()
    out.print(Text(title, style="bold"))
    out.print(table)
    out.print()


def console(error: bool = False) -> Any:
    """A rich console on standard output or error."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `main` has the exit code; rich would exit with 1, which means "different"

    return Output(stderr=error, highlight=False, width=None if _is_terminal(sys.stderr if error else sys.stdout)
                  else PIPE_WIDTH)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())  # None where the shell closed it


@contextmanager
def progress() -> Iterator[Progress | None]:
    """A progress callable that draws bars on standard error; None where that is no terminal."""
    if not _is_terminal(sys.stderr):
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(error=True), transient=True) as bars:
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
