"""The events of a unit as a table of changes that fits the terminal.

Values that no event changes come first, once. Then each event has a line. Columns that do not fit next to each other
continue in another table, which omits events without changes in it.
"""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from refemu.cli.output import GAP
from refemu.golden.view.members import Member, members
from refemu.units.ports import Port, Ports
from refemu.units.value_text import folded, values_of, whole

NARROW = 8  #: characters of a column's name before it is wrapped
MOST_LINES = 2  #: lines of a value in a list before lanes are omitted
LABEL = 7  #: characters of "outputs", the longest name of a group
SHARE = 3  #: a cell of several lanes takes at most this fraction of the line, 1 / SHARE


class Column(NamedTuple):
    """A column of one table: the lines of its name, and the text of every event, "" if nothing changed."""

    head: list[str]
    texts: list[str]
    right: bool

    @property
    def width(self) -> int:
        """Width of the widest line."""
        return max(map(len, self.head + self.texts))

    def padded(self, text: str) -> str:
        """Align a text in the column."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def lines(
    ports: Ports, states: Sequence[Any], width: int, full: bool = False, registers: Sequence[Port] = ()
) -> Iterator[str]:
    """Yield the lines of a table.

    ports: of the configuration. states: at least one, of one unit. full: a list for each event, with every lane.
    registers: registers of the device that are not ports.
    """
    every = list(members(ports, states, registers))
    if full or len(states) == 1:
        yield from _lists(every, states, width, full)
        return
    constant = [field for field in every if all(value == field[2][0] for value in field[2])]
    if constant:
        yield "the same after every event"
        yield from _listed(constant, 0, width, False)
        yield ""
    changing = [field for field in every if field not in constant]
    numbers = Column(["#"], [str(event) for event in range(len(states))], True)
    events = Column(["event"], [state.event for state in states], False)
    columns = [_column(field, max(NARROW, width // SHARE)) for field in changing]
    for number, block in enumerate(_blocks(columns, width - numbers.width - events.width - 2 * GAP)):
        yield from [""] * (number > 0)
        yield from _table([numbers, events, *block], every_event=number == 0)


def _column(field: Member, most: int) -> Column:
    _, port, values = field
    texts = [folded(port, values[0], most)]
    for before, value in itertools.pairwise(values):
        texts.append("" if value == before else folded(port, value, most, before))
    single = all(len(values_of(value)) == 1 for value in values)
    return Column(_head(port.name, max(map(len, texts))), texts, single and "=" not in "".join(texts))


def _head(name: str, width: int) -> list[str]:
    """Wrap a name after underscores, into few lines that are not much wider than the column."""
    parts, limit = [""], max(NARROW, width)
    for word in name.replace("_", "_ ").split():
        if parts[-1] and len(parts[-1] + word) > limit:
            parts.append("")
        parts[-1] += word
    return parts


def _blocks(columns: Sequence[Column], room: int) -> Iterator[list[Column]]:
    """Yield groups of columns that fit next to each other, at least one in each."""
    block: list[Column] = []
    taken = 0
    for column in columns:
        if block and taken + column.width > room:
            yield block
            block, taken = [], 0
        block.append(column)
        taken += column.width + GAP
    yield block


def _table(columns: Sequence[Column], every_event: bool) -> Iterator[str]:
    height = max(len(column.head) for column in columns)
    heads = [[""] * (height - len(column.head)) + column.head for column in columns]
    for row in zip(*heads, strict=True):
        yield _row(columns, row)
    yield "─" * len((" " * GAP).join("-" * column.width for column in columns))
    for row in zip(*(column.texts for column in columns), strict=True):
        if every_event or any(row[2:]):
            yield _row(columns, row)


def _row(columns: Sequence[Column], texts: Sequence[str]) -> str:
    return (" " * GAP).join(column.padded(text) for column, text in zip(columns, texts, strict=True)).rstrip()


def _lists(every: Sequence[Member], states: Sequence[Any], width: int, full: bool) -> Iterator[str]:
    """Yield a list of the changes of each event; the first event has all fields."""
    for event, state in enumerate(states):
        changed = [field for field in every if not event or field[2][event] != field[2][event - 1]]
        yield f"{event} {state.event}"
        yield from _listed(changed, event, width, full)


def _listed(every: Sequence[Member], event: int, width: int, full: bool) -> Iterator[str]:
    """Yield a line for each field, or more for its lanes; counters share a line."""
    names = max([len(port.name) for group, port, _ in every if group != "counts"], default=0)
    label = ""
    for group, port, values in every:
        if group == "counts":
            continue
        start = f"{group if group != label else '':{LABEL}}  {port.name:{names}}  "
        label = group
        yield from _field(start, port, values[event], width, full)
    counts = [f"{port.name} {values[event]}" for group, port, values in every if group == "counts"]
    if counts:
        margin = " " * (LABEL + GAP)
        text = "  ".join(count.replace(" ", "\0") for count in counts)
        wrapped = textwrap.wrap(text, width, initial_indent=f"counts{margin[6:]}", subsequent_indent=margin)
        yield from (line.replace("\0", " ") for line in wrapped)


def _field(start: str, port: Port, value: Any, width: int, full: bool) -> Iterator[str]:
    room = max(NARROW, width - len(start))
    wrapped = textwrap.wrap(whole(port, values_of(value)), room, break_on_hyphens=False)
    if len(wrapped) > MOST_LINES and not full:
        wrapped = [folded(port, value, room)]
    for number, line in enumerate(wrapped):
        yield (" " * len(start) if number else start) + line
