"""Registers of page_manager, queries of a scheme, States, and the events inside a call. [leankv §5.2, Fig. 5]

A stepped call is made at once, so that an error changes nothing; every event is the State of the units at that time,
and leads to the next.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.declaration import DeclaredState, InPlace, constant
from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.leankv.page_manager.registers import COUNTERS, REGISTERS, ports_of
from refemu.units.leankv.page_manager.requests import NOTHING, Memory, Moved, Request, Requests, Shape, memory
from refemu.units.leankv.page_table import PageTable, drawn
from refemu.units.leankv.prefix_sum import PrefixSum
from refemu.units.ports import Ports

FREE = 16  #: most pages of the ring in a drawing


class Pool(InPlace, Shape):
    """The list of free pages, the table, the requests and the counters; `PageManager` adds the events."""

    counters: ClassVar[dict[str, str]] = COUNTERS
    registers: ClassVar[dict[str, str]] = REGISTERS
    _called: ClassVar[Callable[..., None]]  # makes one of the four calls

    @constant
    def shape(self) -> Shape:
        """Parameters of the manager."""
        return _shape(*(getattr(self, name) for name in self._names))

    @constant
    def ports(self) -> Ports:
        return ports_of(self)

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"ids": (-1,) * self.pages, "following": None}

    def _reset(self) -> None:
        super()._reset()
        self.requests: Requests = Requests(self.shape)
        self._moves = NOTHING, NOTHING  # pages of the last event; pages that a prompt lacked
        self._log: list[DeclaredState] | None = None  # events inside a stepped call
        self.totals: dict[str, int] = dict.fromkeys(tuple(COUNTERS)[2:], 0)  #: counters that the list does not have
        self._empty()

    def _empty(self) -> None:
        """Reset: all pages free, all entries empty."""
        self.list: FreePageList = FreePageList(self.pages)
        self.table: PageTable = PageTable(self.slots, self.layers, self.heads, self.length, self.scrub)

    # Queries of a scheme.

    def fork(self) -> Self:
        """Copy the manager."""
        return copy.deepcopy(self)

    @property
    def free(self) -> int:
        """Number of free pages."""
        return self.list.free

    @property
    def held(self) -> int:
        """Number of pages that heads own."""
        return self.pages - self.free

    def free_ids(self) -> list[int]:
        """Free pages in the order in which they will leave."""
        return self.list.free_ids()

    def slot(self, sequence: int) -> int:
        """Slot of a sequence."""
        (known,) = self.requests.require_known([sequence])
        return self.requests.table[known].slot

    def cells(self, sequences: Sequence[int]) -> np.ndarray:
        """Table entries of sequences; only the runs hold their pages."""
        return self._by_head(sequences, self.table.row, self.shape.length).astype(np.int32)

    def lengths(self, sequences: Sequence[int]) -> np.ndarray:
        """Stored tokens of sequences."""
        return self._by_head(sequences, self.table.tokens, 2)

    def used(self, sequences: Sequence[int]) -> np.ndarray:
        """Pages of sequences."""
        return self._by_head(sequences, self.table.used, 2)

    def _by_head(self, sequences: Sequence[int], of: Callable[[int], Sequence[int]], size: int) -> np.ndarray:
        """What the table has for each entry, `size` numbers: int64 (S, layers, heads, size)."""
        values = np.array([of(entry) for entry in self._entries(sequences)], np.int64)
        return values.reshape(len(sequences), self.shape.layers, self.shape.heads, size)

    def memory(self, high: UnifiedPage, low: UnifiedPage | None = None) -> Memory:
        """Memory of all sequences on pages of these layouts."""
        known = list(self.requests.table)
        tokens = self.lengths(known).reshape(-1, 2).tolist()
        seen = self.shape.layers * self.shape.heads * total([self.requests.table[s].seen for s in known])
        return memory(
            self.shape, seen, (total([t[0] for t in tokens]), total([t[1] for t in tokens])), self.held, high, low
        )

    def _entries(self, sequences: Sequence[int]) -> list[int]:
        numbers: list[int] = self.requests.entries(self.requests.require_known(sequences)).ravel().tolist()
        return numbers

    # States.

    def draw(self, state: DeclaredState) -> str:
        """Draw the table under the pages that are free, the next first, as text."""
        ring = state.ring
        free = [ring[place % len(ring)] for place in range(state.head, state.tail)]
        shown = " ".join(map(str, free[:FREE])) + (f" ... {len(free)} pages" if len(free) > FREE else "")
        return f"free     {shown or 'none'}\n{drawn(state.cells, state.used, state.tokens)}"

    def _registers(self) -> dict[str, Any]:
        moved, came = self._moves
        return {
            "counts": _listed(moved.counts),
            "prefix": _listed(moved.prefix),
            "ids": _listed(moved.ids) + _listed(came.ids),
            "lacking": _listed(came.counts),
            "requests": tuple((s, *request.fields()) for s, request in self.requests.table.items()),
            "slots": tuple(self.requests.free_slots),
            **self.totals,
            **self._memories(),
        }

    def load(self, state: DeclaredState) -> None:
        self.requests = Requests(self.shape, {row[0]: Request(*row[1:]) for row in state.requests}, deque(state.slots))
        self._moves = Moved(state.counts, state.prefix, state.ids), Moved(state.lacking)
        self.totals = {name: getattr(state, name) for name in self.totals}
        self._load(state)

    def _memories(self) -> dict[str, Any]:
        """Registers and counters of the list and the table, by the fields of a State."""
        both = self.list._registers() | self.table._registers()
        return {name: held for name, held in both.items() if name not in ("wraps", "written", "given_back")}

    def _load(self, state: DeclaredState) -> None:
        """The inverse of `_memories`."""
        self.list.load(state)
        self.table.load(state)

    # Stepped calls.

    @property
    def busy(self) -> bool:
        """Whether events of a call remain."""
        return self._last.get("following") is not None

    def _open(self, *inputs: Any) -> DeclaredState:
        """Make the call, then show its events one by one."""
        op, members, *lanes_of = inputs
        before = self._last, self._moves
        latched = dict(zip(("sequences", "prompts", "high", "low"), map(list, lanes_of), strict=True))
        self._note("plan", op=op, members=members, **latched)
        index, self._moves, self._log = self._last["index"], (NOTHING, NOTHING), []
        try:
            self._called(op, members, **latched)
        except Refused:
            (self._last, self._moves), self._log = before, None
            raise
        log, self._log = self._log, None
        self._last |= {"op": op, "members": members, **latched, "index": index}
        first = self.state
        for state in reversed(log):
            first = replace(state, following=first)
        self.state = first
        return first

    def _continue(self) -> DeclaredState:
        following: DeclaredState = self._last["following"]
        self.state = following
        return following

    def _levels(self, counts: Sequence[int], base: int) -> None:
        """Log the plan of a prefix sum, and the levels of the network."""
        if not counts:
            return
        network = PrefixSum(len(counts))
        state = network.step(tuple(counts), base)
        self._inner("plan", Moved(tuple(counts), state.inclusive))
        while network.busy:
            self._inner("level", Moved(tuple(counts), network.step().inclusive))

    def _inner(self, event: str, moved: Moved | None = None) -> None:
        """Save the State of an event inside a stepped call."""
        if self._log is not None:
            self._last["event"] = event
            if moved:
                self._moves = moved, NOTHING
            self._log.append(self.state)

    def _append(self, entry: int, section: int, ids: Sequence[int]) -> None:
        """Append pages to a run."""
        self.table.append(entry, section, ids)
        self._inner("append")

    def _set_tokens(self, entry: int, high: int, low: int) -> None:
        """Record the tokens of both runs."""
        self.table.set_tokens(entry, high, low)
        self._inner("tokens")

    def _split(self, entry: int, high: int, low: int) -> list[int]:
        """Split the runs of a released prompt; return the surplus pages."""
        ids = self.table.split(entry, high, low)
        self._inner("split")
        return ids

    def _clear(self, entry: int) -> list[int]:
        """Empty an entry; return its pages."""
        ids = self.table.clear(entry)
        self._inner("clear")
        return ids


@lru_cache(maxsize=64, typed=True)  # each compiled call makes a manager
def _shape(*sizes: Any) -> Shape:
    return Shape(*sizes)


def _listed(values: Sequence[int] | np.ndarray) -> list[int]:
    """Python ints of the pages of a call, which is an array in the compiled form."""
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def total(values: Sequence[int]) -> int:
    """The sum of Python ints."""
    total = 0
    for value in values:
        total += value
    return total
