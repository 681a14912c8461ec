"""The bidirectional page table: in the entry of a head, high pages from the left and low pages from the right.

Paper: [leankv §5.2, Fig. 5].
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_int, require_integers
from refemu.units import AnyUnit, Config, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import DeclaredState, InPlace, constant

__all__ = [
    "APPEND",
    "CLEAR",
    "HIGH",
    "LOOKUP",
    "LOW",
    "SPLIT",
    "TOKENS",
    "UNIT",
    "PageTable",
    "State",
    "TableOverflow",
    "drawn",
    "locate",
    "run",
]


HIGH, LOW = 0, 1  #: Sections of an entry
CLEAR, APPEND, SPLIT, TOKENS, LOOKUP = range(5)  #: Operations of the port `op`


GAP = 8  #: most cells between the runs of an entry that a drawing shows individually


class TableOverflow(Refused):
    """Error for pages whose runs of high and low pages would meet; nothing has changed."""


class PageTable(InPlace):
    """Page table: entries of every slot, layer and head, with high pages from the left and low pages from the right.

    High page j is cell j of an entry, low page j is cell cells - 1 - j. Cells outside the two runs are unchanged
    (D-leankv-40); with `scrub` they become -1. By `step`, append adds page `value` to `section`; split retains `value`
    high and `other` low pages; tokens records `value` high and `other` low tokens; lookup shows page `value` of
    `section`. [leankv §5.2, Fig. 5]
    """

    name = "page_table"
    does: ClassVar[Mapping[str, str]] = {
        "clear": "an entry is emptied",
        "append": "a page is added to a section of an entry",
        "split": "the pages of a prompt become its high and its low section, and a surplus that is recycled",
        "tokens": "the tokens of both sections are recorded",
        "lookup": "a page of a section is read",
    }
    events: ClassVar[tuple[str, ...]] = tuple(does)  #: by the port `op`
    counters: ClassVar[dict[str, str]] = {
        "written": "cells written with a page",
        "given_back": 'pages that "clear" and "split" recycled',
    }
    slots: Annotated[int, 1, 1 << 20] = 1  #: simultaneous requests, 1 to 2**20
    layers: Annotated[int, 1, 1 << 20] = 1  #: layers, 1 to 2**20
    heads: Annotated[int, 1, 1 << 20] = 2  #: KV heads of a layer, 1 to 2**20
    cells: Annotated[int, 1, 1 << 20] = 7  #: L, cells of one entry, 1 to 2**20
    scrub: bool = False  #: whether -1 is written into cells that are no longer used

    @constant
    def entries(self) -> int:
        """Number of entries."""
        return self.slots * self.layers * self.heads

    @constant
    def ports(self) -> Ports:
        entries, cells = self.entries, self.cells
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
                Port("ids", 32, cells, signed=True, meaning="pages that the entry recycles, then -1"),
                Port("count", 16, meaning="number of recycled pages"),
                Port("high_pages", 16, meaning="high pages of the entry after the event"),
                Port("low_pages", 16, meaning="low pages of the entry after the event"),
            ),
            state=(
                Port("used", 16, 2 * entries, meaning="pages of every entry, high and low"),
                Port("tokens", 32, 2 * entries, meaning="tokens of every entry, high and low"),
                Port("cells", 32, entries * cells, signed=True, meaning="page ids"),
            ),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"page": -1, "ids": (-1,) * self.cells}

    def _reset(self) -> None:
        super()._reset()
        self._cells = [[-1] * self.cells for _ in range(self.entries)]
        self._used = [[0, 0] for _ in range(self.entries)]
        self._tokens = [[0, 0] for _ in range(self.entries)]
        self.written: int = 0
        self.given_back: int = 0

    def entry(self, slot: int, layer: int, head: int) -> int:
        """Number of an entry, in the order slot, layer, head."""
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
        """Copy all cells of an entry, stale ones included."""
        return list(self._cells[entry])

    def run(self, entry: int, section: int) -> list[int]:
        """Pages of one run, in their order."""
        cells, count = self._cells[entry], self._used[entry][section]
        return cells[:count] if section == HIGH else [cells[-1 - j] for j in range(count)]

    def page(self, entry: int, section: int, j: int) -> int:
        """Page of a run; a cell outside the run may hold a stale id."""
        count = self._used[entry][section]
        if not 0 <= j < count:
            raise Refused(f"{self.name}: {self._where(entry)} has {count} {('high', 'low')[section]} pages, got {j}")
        return self._cells[entry][j if section == HIGH else -1 - j]

    def require_room(self, entry: int, pages: int) -> None:
        """Check that pages fit an entry."""
        high, low = self._used[entry]
        needed = pages + high + low
        if needed > self.cells:
            raise TableOverflow(f"{self.name}: {self._where(entry)}: cells must be at most {self.cells}, got {needed}")

    def _where(self, entry: int) -> str:
        layer, head = divmod(entry % (self.layers * self.heads), self.heads)
        return f"head {head} of layer {layer}"

    def append(self, entry: int, section: int, pages: Sequence[int]) -> None:
        """Append page ids to a run. Raises TableOverflow: the runs would meet; nothing has changed."""
        self.require_room(entry, len(pages))
        cells, used = self._cells[entry], self._used[entry]
        for page in pages:
            j = used[section]
            cells[j if section == HIGH else -1 - j] = page
            used[section] = j + 1
        self.written += len(pages)

    def split(self, entry: int, high: int, low: int) -> list[int]:
        """Split the pages of a prompt into the high run, the low run and a surplus [leankv §5.3].

        Raises Refused: the entry has fewer pages, or low pages.
        """
        held, held_low = self._used[entry]
        if held_low or high < 0 or low < 0 or high + low > held:
            raise Refused(
                f"{self.name}: {self._where(entry)}: high + low must be at most {held}, without low pages before, "
                f"got {high} + {low} with {held_low} low pages"
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
        """Record the number of tokens in the runs."""
        self._tokens[entry] = [high, low]

    def clear(self, entry: int) -> list[int]:
        """Empty an entry."""
        ids = self.run(entry, HIGH) + self.run(entry, LOW)
        if self.scrub:
            self._cells[entry] = [-1] * self.cells
        self._used[entry], self._tokens[entry] = [0, 0], [0, 0]
        self.given_back += len(ids)
        return ids

    def _open(self, *inputs: Any) -> DeclaredState:
        op, entry, section, value, other = inputs
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
        high_pages, low_pages = self._used[entry]
        runs = {"high_pages": high_pages, "low_pages": low_pages}
        named = {"op": op, "entry": entry, "section": section, "value": value, "other": other}
        self._note(self.events[op], **named, page=page, ids=ids, count=len(ids), **runs)
        return self.state

    def draw(self, state: DeclaredState) -> str:
        """Draw the table, as text."""
        return drawn(state.cells, state.used, state.tokens)

    def _registers(self) -> dict[str, Any]:
        return {
            "used": tuple(chain.from_iterable(self._used)),
            "tokens": tuple(chain.from_iterable(self._tokens)),
            "cells": list(chain.from_iterable(self._cells)),
            "written": self.written,
            "given_back": self.given_back,
        }

    def load(self, state: DeclaredState) -> None:
        rows, cells = range(self.entries), state.cells
        self._cells = [list(cells[row * self.cells : (row + 1) * self.cells]) for row in rows]
        self._used = [list(state.used[2 * row : 2 * row + 2]) for row in rows]
        self._tokens = [list(state.tokens[2 * row : 2 * row + 2]) for row in rows]
        self.written, self.given_back = (
            vars(state).get(name, 0) for name in self.counters
        )  # a pool has other counters


def locate(cells: np.ndarray, section: int, index: ArrayLike, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Find page and slot of stored tokens, for many heads at once. [leankv §5.2]

    cells: (..., L), table entries. index: (...), number of a token within its section. Returns `pages, slots` int64
    (...): page id and slot of every token. Raises Refused: an index is beyond the entry. Raises RefusedType: an index
    is not an integer.
    """
    position = require_integers(index, "page_table: index").astype(np.int64)
    page, slot = position // tokens, position % tokens
    bad = (position < 0) | (page >= cells.shape[-1])
    if bad.any():
        raise Refused(
            f"page_table: token must be below {cells.shape[-1]} cells of {tokens}, got {int(position[bad].flat[0])}"
        )
    cell = page if section == HIGH else cells.shape[-1] - 1 - page
    return np.take_along_axis(cells, cell[..., None], -1)[..., 0].astype(np.int64), slot


def drawn(cells: Sequence[int], used: Sequence[int], tokens: Sequence[int]) -> str:
    """Draw a table as text, a line per entry: high pages from the left, low pages from the right, `.` in between.
    [leankv Fig. 5]

    cells, used, tokens: registers of a State.
    """
    entries = len(used) // 2
    length, width = len(cells) // entries, max(len(str(page)) for page in cells)
    lines = []
    for entry in range(entries):
        high, low = used[2 * entry : 2 * entry + 2]
        pages = [f"{page:>{width}}" for page in cells[entry * length : (entry + 1) * length]]
        between = [f"{'.':>{width}}"] * (length - high - low)
        if len(between) > GAP:
            between = [f"...{len(between)} cells..."]
        texts = " ".join([*pages[:high], *between, *pages[length - low :]])
        lines.append(f"entry {entry}  {texts}  tokens {tokens[2 * entry]} high, {tokens[2 * entry + 1]} low")
    return "\n".join(lines)


UNIT: AnyUnit = Unit(
    unit_class=PageTable,
    paper="leankv §5.2, Fig. 5",
    meaning="page ids of every head: high from left, low from right",
    configs={
        "paper": Config(slots=1, layers=1, heads=2, cells=7, scrub=False),
        "scrub": Config(slots=2, layers=2, heads=1, cells=5, scrub=True),
    },
)
State: type[DeclaredState] = PageTable.State
run: RunFunction[Result] = UNIT.run
