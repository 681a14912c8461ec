"""Registers of page_manager, queries of a scheme, and the conversion to and from a State.

Paper: [leankv §5.2]. Decision: D-leankv-36 (length of an entry).
"""

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Self

import numpy as np

from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.leankv.page_manager.registers import State, ports
from refemu.units.leankv.page_manager.requests import (
    COUNTERS,
    Counters,
    Memory,
    Moved,
    Request,
    Requests,
    Shape,
    memory,
)
from refemu.units.leankv.page_table import PageTable, drawn
from refemu.units.ports import Ports, fields, lanes
from refemu.units.stepped import Clocked

FREE = 16  #: pages of the ring that a drawing shows


class Pool(Clocked[State]):
    """The list of free pages, the table, the requests and the counters; `PageManager` adds the events."""

    def __init__(self, shape: Shape) -> None:
        """Begin with all pages free and no request.

        Parameters
        ----------
        shape : Shape
            Parameters of the manager.
        """
        self.shape = shape
        self.requests: Requests = Requests(self.shape)
        self.counters: Counters = Counters()
        self._event: dict[str, Any] = {"event": "reset", "index": -1}
        self._log: list[State] | None = None  #: of the events inside a call that is stepped
        self._reset()

    def _reset(self) -> None:
        """All pages free, all entries empty."""
        shape = self.shape
        self.list: FreePageList = FreePageList(shape.pages)
        self.table: PageTable = PageTable(shape.slots, shape.layers, shape.heads, shape.length, shape.scrub)

    @cached_property
    def ports(self) -> Ports:  # type: ignore[override]  # made on demand: pools of a model have thousands of pages
        """Ports of a manager of this size."""
        return ports(asdict(self.shape))

    # What a scheme asks.

    def fork(self) -> Self:
        """Copy the manager, to go back to it.

        Returns
        -------
        Pool
            A manager of its own with the same state.
        """
        return copy.deepcopy(self)

    @property
    def free(self) -> int:
        """Number of free pages."""
        return self.list.free

    @property
    def held(self) -> int:
        """Number of pages that heads own."""
        return self.shape.pages - self.free

    def free_ids(self) -> list[int]:
        """Free pages in the order in which they will leave.

        Returns
        -------
        list of int
            Page ids.
        """
        return self.list.free_ids()

    def slot(self, sequence: int) -> int:
        """Slot of a sequence.

        Parameters
        ----------
        sequence : int
            Name.

        Returns
        -------
        int
            Slot.

        Raises
        ------
        Refused
            The sequence is unknown.
        """
        (known,) = self.requests.require_known([sequence])
        return self.requests.table[known].slot

    def cells(self, sequences: Sequence[int]) -> np.ndarray:
        """Table entries of sequences; only the runs hold their pages.

        Parameters
        ----------
        sequences : sequence of int
            Names, S of them.

        Returns
        -------
        ndarray of int32 (S, layers, heads, L)
            Cells.

        Raises
        ------
        Refused
            A sequence is unknown or named twice.
        """
        return np.array([self.table.row(e) for e in self._entries(sequences)], np.int32).reshape(
            len(sequences), self.shape.layers, self.shape.heads, self.shape.length
        )

    def lengths(self, sequences: Sequence[int]) -> np.ndarray:
        """Stored tokens of sequences.

        Parameters
        ----------
        sequences : sequence of int
            Names, S of them.

        Returns
        -------
        ndarray of int64 (S, layers, heads, 2)
            Tokens, high and low.

        Raises
        ------
        Refused
            A sequence is unknown or named twice.
        """
        return np.array([self.table.tokens(e) for e in self._entries(sequences)], np.int64).reshape(
            len(sequences), self.shape.layers, self.shape.heads, 2
        )

    def used(self, sequences: Sequence[int]) -> np.ndarray:
        """Pages of sequences.

        Parameters
        ----------
        sequences : sequence of int
            Names, S of them.

        Returns
        -------
        ndarray of int64 (S, layers, heads, 2)
            Pages, high and low.

        Raises
        ------
        Refused
            A sequence is unknown or named twice.
        """
        return np.array([self.table.used(e) for e in self._entries(sequences)], np.int64).reshape(
            len(sequences), self.shape.layers, self.shape.heads, 2
        )

    def memory(self, high: UnifiedPage, low: UnifiedPage | None = None) -> Memory:
        """Memory of all sequences on pages of these layouts.

        Parameters
        ----------
        high : UnifiedPage
            Layout of high pages.
        low : UnifiedPage, optional
            Layout of low pages.

        Returns
        -------
        Memory
            Bits, bytes and ratios.
        """
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

    def draw(self, state: State) -> str:
        """Draw the table under the pages that are free, the next first, as text.

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.

        References
        ----------
        [leankv Fig. 5]
        """
        ring = fields(state.ring)
        free = [ring[place % len(ring)] for place in range(state.head, state.tail)]
        shown = " ".join(map(str, free[:FREE])) + (f" ... {len(free)} pages" if len(free) > FREE else "")
        return f"free     {shown or 'none'}\n{drawn(fields(state.cells), state.used, state.tokens)}"

    @property
    def state(self) -> State:
        """All registers and the last event: made on demand."""
        last = self._event
        moved, came = last.get("moved", Moved()), last.get("came", Moved())
        shown = {"counts": moved.counts, "prefix": moved.prefix, "ids": (*moved.ids, *came.ids), "lacking": came.counts}
        shown |= {name: last.get(name, ()) for name in ("sequences", "prompts", "high", "low")}
        values = {name: np.array(value, np.int64).ravel().tolist() for name, value in shown.items()}
        wide = {port.name: port.lanes for port in self.ports.all}
        padded: dict[str, Any] = {
            name: lanes((*value, *(-1 if name == "ids" else 0,) * (wide[name] - len(value))))
            for name, value in values.items()
        }
        requests = tuple((s, *request.fields()) for s, request in self.requests.table.items())
        return State(
            event=last["event"],
            index=last["index"],
            op=last.get("op", 0),
            members=last.get("members", len(values["sequences"])),
            **padded,
            requests=requests,
            slots=tuple(self.requests.free_slots),
            following=last.get("following"),
            **self._registers(),
            **vars(self.counters),
        )

    @state.setter
    def state(self, state: State) -> None:
        self._load(state)
        self.requests = Requests(self.shape, {row[0]: Request(*row[1:]) for row in state.requests}, deque(state.slots))
        self.counters = Counters(**{name: getattr(state, name) for name in COUNTERS})
        names = ("event", "index", "op", "members", "sequences", "prompts", "high", "low", "following")
        self._event = {name: getattr(state, name) for name in names}
        self._event["moved"] = Moved(fields(state.counts), fields(state.prefix), fields(state.ids))
        self._event["came"] = Moved(fields(state.lacking))

    def _registers(self) -> dict[str, Any]:
        """Registers of the list and the table, by the names of a State."""
        listed, tabled = self.list.snapshot(), self.table.snapshot()
        return {
            name: getattr(listed, name)
            for name in ("list_start", "list_end", "free", "ring", "head", "tail", "allocated", "recycled")
        } | {name: getattr(tabled, name) for name in ("used", "tokens", "cells")}

    def _load(self, state: State) -> None:
        """The inverse of `_registers`."""
        self.list.load(state)  # type: ignore[arg-type]  # it has the same registers
        self.table.load(state)  # type: ignore[arg-type]


def total(values: Sequence[int]) -> int:
    """The sum of Python ints."""
    total = 0
    for value in values:
        total += value
    return total
