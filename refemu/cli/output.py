"""Tables for people, JSON for programs. Tables do without rich, which takes 0.1 s to import."""

import errno
import io
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TextIO

GAP = 2  #: spaces between the columns of a table
LEAST = 8  #: width below which a column is not wrapped
PIPE_WIDTH = 200  #: columns of a table in a file or pipe
TIED = "\0"  #: a space at which a cell is not wrapped


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output, if there is one; they end in newlines."""
    if sys.stdout is not None:
        sys.stdout.writelines(lines)


class Closed(io.TextIOBase):
    """Standard output that the shell closed, as by `>&-`; a write is an error instead of being lost."""

    def write(self, text: str) -> int:
        """Raise an error."""
        raise OSError(errno.EBADF, "closed; redirect it to a file, or to /dev/null", "standard output")


class Escaping(io.TextIOWrapper):
    """A stream on which text from files cannot command a terminal: control characters appear as `\\x1b`."""

    def write(self, text: str) -> int:
        """Write text; escape control characters other than those of bold text."""
        super().write(_CONTROL.sub(_escaped, text))
        return len(text)


_CONTROL = re.compile(r"\x1b\[[01]m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if len(character) > 1:
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def replace_closed() -> None:
    """Replace streams that the shell closed: writing to standard output fails, messages are dropped."""
    sys.stdout = sys.stdout or Closed()
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  # until the process ends


def escape_unprintable() -> None:
    """Escape on standard output and error what commands a terminal, and what their encoding lacks, as `\\xa7`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            buffered = stream.line_buffering
            setattr(sys, name, Escaping(stream.detach(), stream.encoding, "backslashreplace", line_buffering=buffered))


def unescaped(stream: TextIO) -> TextIO:
    """The stream below an Escaping one, for progress bars."""
    return open(stream.fileno(), "w", closefd=False) if isinstance(stream, Escaping) else stream


def print_json(form: str, value: Mapping[str, Any]) -> None:
    """Print a JSON document; bytes become lists of integers, fractions become text.

    form: name of its schema in `refemu schema`; the document has its version.
    """
    print(json_text({"schema": f"refemu.{form}/1", **value}))


def json_text(document: Mapping[str, Any]) -> str:
    """Format JSON in ASCII, sorted, with null for NaN and infinity."""
    return json.dumps(_with_nulls(document), indent=1, sort_keys=True, default=_plain, allow_nan=False)


def _with_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_nulls(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, bytes) else str(value)


def print_title(text: str, width: int) -> None:
    """Print a heading of at most `width` columns a line, bold like the heading of a table."""
    print("\n".join(_bold().format(line) for line in textwrap.wrap(text, width, break_on_hyphens=False)))


def _bold() -> str:
    plain = not is_terminal(sys.stdout) or "NO_COLOR" in os.environ
    return "{}" if plain else "\x1b[1m{}\x1b[0m"


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """Print a table. right: names of columns of numbers. Headings are bold on a terminal, unless NO_COLOR is set."""
    terminal = is_terminal(sys.stdout)
    bold = _bold()
    width = _columns() if terminal else PIPE_WIDTH
    header, *others = table_lines(columns, [[str(cell) for cell in row] for row in rows], right, width)
    print("\n".join([bold.format(title), bold.format(header), *others, ""]))


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str], width: int
) -> Iterator[str]:
    """Yield the header, a rule and the rows, wrapped to `width` if possible.

    right: columns of numbers, which are aligned on the right. These and the first column are never wrapped.
    """
    fixed = {name for name in columns if name in right or name == columns[0]}
    foldable = [name not in fixed for name in columns]
    widths = fitted([max(map(len, cells)) for cells in zip(columns, *rows, strict=True)], foldable, width)
    aligned: list[Callable[[str, int], str]] = [str.rjust if name in right else str.ljust for name in columns]
    yield _line(columns, widths, aligned)
    yield "─" * (len("".join("-" * size for size in widths)) + GAP * (len(widths) - 1))
    for row in rows:
        folded = [
            textwrap.wrap(cell, size, break_on_hyphens=False) if len(cell) > size else [cell]
            for cell, size in zip(row, widths, strict=True)
        ]
        for parts in zip_longest(*folded, fillvalue=""):
            yield _line(parts, widths, aligned)


def fitted(widths: Sequence[int], foldable: Sequence[bool], width: int) -> list[int]:
    """Narrow the widest foldable columns until all fit into `width`, or no column can be narrowed."""
    fitting, over = list(widths), GAP * (len(widths) - 1) - width
    for size in widths:
        over += size
    while over > 0:
        left = [index for index, may in enumerate(foldable) if may and fitting[index] > LEAST]
        if not left:
            break
        fitting[max(left, key=lambda index: fitting[index])] -= 1
        over -= 1
    return fitting


def _line(cells: Sequence[str], widths: Sequence[int], aligned: Sequence[Callable[[str, int], str]]) -> str:
    placed = (align(cell, width) for cell, width, align in zip(cells, widths, aligned, strict=True))
    return (" " * GAP).join(placed).replace(TIED, " ").rstrip()


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; False if the shell closed it."""
    return stream is not None and bool(stream.isatty())


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 shard, 2 shards."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: int) -> str:
    """A number of bytes with its unit: 98.4 MB."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
