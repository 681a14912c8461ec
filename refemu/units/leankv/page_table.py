"""The bidirectional page table: in the entry of a head, high pages from the left and low pages from the right.

Paper: [leankv §5.2, Fig. 5]. Decisions: D-leankv-36 (length of an entry), D-leankv-40 (cells that are no longer used).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int, require_integers
from refemu.units import page_table_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, collect, lanes
from refemu.units.unit_cases import Seeds

HIGH, LOW = 0, 1  #: sections
CLEAR, APPEND, SPLIT, TOKENS, LOOKUP = range(5)  #: operations
EVENTS = ("clear", "append", "split", "tokens", "lookup")
COUNTERS = ("written", "given_back")


class TableOverflow(Refused):
    """The runs of high and low pages would meet; nothing has changed."""


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset" or one of EVENTS
    index: int  #: number of the event, -1 for the reset
    op: int
    entry: int
    section: int
    value: int
    other: int
    page: int
    ids: Any
    count: int
    high_pages: int  #: of the entry
    low_pages: int
    used: Any  #: pages, high and low, of every entry
    tokens: Any  #: likewise
    cells: Any  #: of all entries, one after the other
    written: int  #: cells
    given_back: int  #: pages that clear and split returned


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit and what it holds, one row per event; counters over all devices."""

    page: np.ndarray  #: int32
    ids: np.ndarray  #: (..., cells) int32
    count: np.ndarray  #: uint16
    high_pages: np.ndarray  #: uint16
    low_pages: np.ndarray  #: uint16
    used: np.ndarray  #: (..., entries * 2) uint16
    tokens: np.ndarray  #: (..., entries * 2) uint32
    cells: np.ndarray  #: (..., entries * cells) int32
    written: int
    given_back: int


class PageTable(Stepped):
    """Entries of every slot, layer and head. High page j is cell j of an entry, low page j is cell cells - 1 - j.

    Cells outside the two runs keep what they held (D-leankv-40); with `scrub` they become -1.
    """

    name = "page_table"

    def __init__(self, slots: int = 1, layers: int = 1, heads: int = 2, cells: int = 7, scrub: bool = False) -> None:
        """slots, layers, heads: entries. cells: L, of one entry."""
        for name, value in (("slots", slots), ("layers", layers), ("heads", heads), ("cells", cells)):
            require_int(value, 1, 1 << 20, self.name, name)
        self.slots, self.layers, self.heads, self.length, self.scrub = slots, layers, heads, cells, bool(scrub)
        self.entries = slots * layers * heads
        self._cells = [[-1] * cells for _ in range(self.entries)]
        self._used = [[0, 0] for _ in range(self.entries)]
        self._tokens = [[0, 0] for _ in range(self.entries)]
        self.written = self.given_back = 0
        self._event = State("reset", -1, 0, 0, 0, 0, 0, -1, (), 0, 0, 0, (), (), (), 0, 0)

    @property
    def ports(self) -> Ports:  # type: ignore[override]  # made on demand: tables of a model have many entries
        """Ports of a table of this size."""
        return ports({"slots": self.slots, "layers": self.layers, "heads": self.heads, "cells": self.length})

    def entry(self, slot: int, layer: int, head: int) -> int:
        """Number of an entry, in the order slot, layer, head. Refused: one that the table does not have."""
        sizes = (("slot", slot, self.slots), ("layer", layer, self.layers), ("head", head, self.heads))
        for name, value, count in sizes:
            require_int(value, 0, count - 1, self.name, name)
        return (slot * self.layers + layer) * self.heads + head

    def used(self, entry: int) -> tuple[int, int]:
        """Pages of the high and of the low run."""
        high, low = self._used[entry]
        return high, low

    def tokens(self, entry: int) -> tuple[int, int]:
        """Tokens stored in the high and in the low run."""
        high, low = self._tokens[entry]
        return high, low

    def row(self, entry: int) -> list[int]:
        """A copy of all cells of an entry, stale ones included."""
        return list(self._cells[entry])

    def run(self, entry: int, section: int) -> list[int]:
        """Pages of one run in their order."""
        cells, count = self._cells[entry], self._used[entry][section]
        return cells[:count] if section == HIGH else [cells[-1 - j] for j in range(count)]

    def page(self, entry: int, section: int, j: int) -> int:
        """Page j of a run. Refused: one that the run does not have; its cell may hold a stale id."""
        count = self._used[entry][section]
        if not 0 <= j < count:
            raise Refused(f"{self.name}: {self._where(entry)} has {count} {('high', 'low')[section]} pages, got {j}")
        return self._cells[entry][j if section == HIGH else -1 - j]

    def require_room(self, entry: int, pages: int) -> None:
        """Raise TableOverflow unless `pages` more fit an entry."""
        needed = pages + self._used[entry][HIGH] + self._used[entry][LOW]
        if needed > self.length:
            raise TableOverflow(f"{self.name}: {self._where(entry)} needs {needed} cells of {self.length}")

    def _where(self, entry: int) -> str:
        layer, head = divmod(entry % (self.layers * self.heads), self.heads)
        return f"head {head} of layer {layer}"

    def append(self, entry: int, section: int, pages: Sequence[int]) -> None:
        """Put pages behind a run. Raises TableOverflow where the runs would meet."""
        self.require_room(entry, len(pages))
        for page in pages:
            j = self._used[entry][section]
            self._cells[entry][j if section == HIGH else -1 - j] = page
            self._used[entry][section] += 1
            self.written += 1

    def split(self, entry: int, high: int, low: int) -> list[int]:
        """Of the pages of a prompt, all in the high run, keep `high` ones; the `low` next ones become the low run.

        Returns the surplus, ascending; it is no longer of the entry [leankv §5.3]. Refused: more than there are, and
        an entry with low pages.
        """
        held, there = self._used[entry]
        if there or high < 0 or low < 0 or high + low > held:
            raise Refused(
                f"{self.name}: {self._where(entry)} holds {held} and {there} pages, cannot keep {high} and {low}"
            )
        ids = self._cells[entry][:held]
        if self.scrub:
            self._cells[entry][high:held] = [-1] * (held - high)
        for j in range(low):  # the runs may overlap here, so the ids were copied
            self._cells[entry][-1 - j] = ids[high + j]
        self._used[entry] = [high, low]
        self.written += low
        self.given_back += held - high - low
        return ids[high + low :]

    def set_tokens(self, entry: int, high: int, low: int) -> None:
        """Record how many tokens the runs hold."""
        self._tokens[entry] = [high, low]

    def clear(self, entry: int) -> list[int]:
        """Empty an entry. Returns its pages: the high run from left to right, then the low run from right to left."""
        ids = self.run(entry, HIGH) + self.run(entry, LOW)
        if self.scrub:
            self._cells[entry] = [-1] * self.length
        self._used[entry], self._tokens[entry] = [0, 0], [0, 0]
        self.given_back += len(ids)
        return ids

    def step(self, op: int, entry: int, section: int, value: int, other: int) -> State:
        """One event: 0 clear; 1 append page `value` to `section`; 2 split into `value` high and `other` low pages;
        3 record `value` high and `other` low tokens; 4 look up page `value` of `section`. Returns the State.
        """
        op, entry, section, value, other = self.accept(op, entry, section, value, other)
        page, ids = -1, list[int]()
        if op == CLEAR:
            ids = self.clear(entry)
        elif op == APPEND:
            self.append(entry, section, [value])
        elif op == SPLIT:
            ids = self.split(entry, value, other)
        elif op == TOKENS:
            self.set_tokens(entry, value, other)
        else:
            page = self.page(entry, section, value)
        self._event = replace(
            self._event,
            event=EVENTS[op],
            index=self._event.index + 1,
            op=op,
            entry=entry,
            section=section,
            value=value,
            other=other,
            page=page,
            ids=ids,
            count=len(ids),
            high_pages=self._used[entry][HIGH],
            low_pages=self._used[entry][LOW],
        )
        return self.snapshot()

    def steps(self, op: Any, entry: Any, section: Any, value: Any, other: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) or scalars, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (op, entry, section, value, other))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)

    @property
    def state(self) -> State:
        """All registers and the last event: made on demand, as for the list of free pages."""
        ids = (*self._event.ids, *(-1,) * (self.length - len(self._event.ids)))
        return replace(
            self._event,
            ids=lanes(ids),
            used=tuple(n for pair in self._used for n in pair),
            tokens=tuple(n for pair in self._tokens for n in pair),
            cells=lanes(tuple(page for row in self._cells for page in row)),
            written=self.written,
            given_back=self.given_back,
        )

    @state.setter
    def state(self, state: State) -> None:
        ids = state.ids if isinstance(state.ids, tuple) else (state.ids,)
        self._event = replace(state, ids=ids)
        cells = state.cells if isinstance(state.cells, tuple) else (state.cells,)
        self.load(cells, state.used, state.tokens)
        self.written, self.given_back = state.written, state.given_back

    def load(self, cells: Sequence[int], used: Sequence[int], tokens: Sequence[int]) -> None:
        """Set the registers, given as a State has them."""
        rows = range(self.entries)
        self._cells = [list(cells[row * self.length : (row + 1) * self.length]) for row in rows]
        self._used = [list(used[2 * row : 2 * row + 2]) for row in rows]
        self._tokens = [list(tokens[2 * row : 2 * row + 2]) for row in rows]

    def __repr__(self) -> str:
        return (
            f"PageTable(slots={self.slots}, layers={self.layers}, heads={self.heads}, cells={self.length}, "
            f"scrub={self.scrub})"
        )


def locate(cells: np.ndarray, section: int, index: Any, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Page and slot of stored tokens, for many heads at once.

    cells: (..., L) entries. section: HIGH or LOW. index: (...) number of a token within its section. tokens: of a page
    of that section. Returns int64 page ids and slots (...). Refuses an index beyond the entry.
    """
    position = require_integers(index, "page_table: index").astype(np.int64)
    page, slot = position // tokens, position % tokens
    bad = (position < 0) | (page >= cells.shape[-1])
    if bad.any():
        raise Refused(f"page_table: token {int(position[bad].flat[0])} is beyond {cells.shape[-1]} cells of {tokens}")
    cell = page if section == HIGH else cells.shape[-1] - 1 - page
    return np.take_along_axis(cells, cell[..., None], -1)[..., 0].astype(np.int64), slot


def run(
    op: Any,
    entry: Any,
    section: Any,
    value: Any,
    other: Any,
    *,
    slots: int = 1,
    layers: int = 1,
    heads: int = 2,
    cells: int = 7,
    scrub: bool = False,
) -> Result:
    """Every event of one table or of many.

    op: 0 clear, 1 append, 2 split, 3 tokens, 4 lookup. entry: (slot * layers + layer) * heads + head. section: 0 high,
    1 low. value, other: as for `PageTable.step`. All (..., events), and they broadcast; each device, an index of the
    leading axes, starts empty. slots, layers, heads, cells, scrub: as for PageTable.
    Returns the Result, arrays of the common shape. Raises TableOverflow; refuses pages outside the runs.
    Paper: [leankv §5.2].
    """
    model = PageTable(slots, layers, heads, cells, scrub)
    arrays = admit_events(model.name, model.ports.inputs, (op, entry, section, value, other))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    states, written, given_back = list[State](), 0, 0
    for device in zip(*(array.reshape(flat).tolist() for array in arrays), strict=True):
        one = PageTable(slots, layers, heads, cells, scrub)
        states += [one.step(*event) for event in zip(*device, strict=True)]
        written, given_back = written + one.written, given_back + one.given_back
    return Result(
        **collect(states, model.ports.outputs + model.ports.state, shape), written=written, given_back=given_back
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    entries, cells = config["slots"] * config["layers"] * config["heads"], config["cells"]
    return Ports(
        inputs=(
            Port("op", 3, most=LOOKUP, meaning="0 clear, 1 append, 2 split, 3 tokens, 4 lookup"),
            Port("entry", 32, most=entries - 1, meaning="slot, layer, head"),
            Port("section", 1, meaning="0 high, 1 low"),
            Port("value", 32, most=(1 << 31) - 1, meaning="page id; high pages or tokens; number of a page"),
            Port("other", 32, most=(1 << 31) - 1, meaning="low pages or tokens"),
        ),
        outputs=(
            Port("page", 32, signed=True, meaning="page looked up, else -1"),
            Port("ids", 32, cells, signed=True, meaning="pages that the entry gives back, then -1"),
            Port("count", 16, meaning="how many"),
            Port("high_pages", 16, meaning="high pages of the entry after the event"),
            Port("low_pages", 16, meaning="low pages of the entry after the event"),
        ),
        state=(
            Port("used", 16, 2 * entries, meaning="pages of every entry, high and low"),
            Port("tokens", 32, 2 * entries, meaning="tokens of every entry, high and low"),
            Port("cells", 32, entries * cells, signed=True, meaning="page ids"),
        ),
    )


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` as events that a table admits."""
    return page_table_cases.legal(config, inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see page_table_cases.py."""
    return page_table_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="page_table",
    paper="leankv §5.2, Fig. 5",
    meaning="page ids of every head: high from left, low from right",
    configs={
        "paper": Config(slots=1, layers=1, heads=2, cells=7, scrub=False),
        "scrub": Config(slots=2, layers=2, heads=1, cells=5, scrub=True),
    },
    ports=ports,
    run=run,
    twin="refemu.units.page_table_jit:run",
    unit_class=PageTable,
    timing="event",
    cases=cases,
    legal=legal,
)
