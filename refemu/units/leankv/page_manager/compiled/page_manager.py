"""Compiled forms of page_manager: the manager over arrays, for models, and `run`, for all events of many managers.

Paper: [leankv §5.3]. The kernels of events.py do the calls of both.
"""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from refemu.arith.checks import Refused, refuse_as
from refemu.units.declaration import DeclaredState
from refemu.units.derivation import Arrays, Rejected, compiled_run
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import UNIT
from refemu.units.leankv.page_manager.compiled import events, growth
from refemu.units.leankv.page_manager.compiled.events import walk
from refemu.units.leankv.page_manager.compiled.growth import Steps
from refemu.units.leankv.page_manager.registers import FINISH, PROMPT, RELEASE, STEP
from refemu.units.leankv.page_manager.requests import NOTHING, Moved, Requests, Shape
from refemu.units.leankv.prefix_sum.compiled import network


class PageManager(page_manager.PageManager):
    """As `page_manager.PageManager`, with arrays in the results of its calls."""

    def _empty(self) -> None:
        shape = self.shape
        self._ring, self._ends = np.arange(shape.pages, dtype=np.int32), np.array([0, shape.pages])
        self._cells = np.full((shape.entries, shape.length), -1, np.int32)
        self._counts = [np.zeros((shape.entries, 2), np.int64) for _ in range(2)]  # used and tokens, if no block began
        self._ahead: tuple[np.ndarray, ...] | None = None  # blocks of steps
        self._growing: Steps | None = None  # what grew last
        self._unseen = 0  # steps of it that its requests have not seen
        self._sizes = _sizes(shape)
        self._allocated_pages = self._recycled_pages = 0

    def fork(self) -> "PageManager":
        """As `page_manager.PageManager.fork`."""
        other = copy.copy(self)
        other.requests, other.totals = self.requests.fork(), dict(self.totals)
        other._counts, other._ahead = [self._used.copy(), self._tokens.copy()], None
        for name in ("_ring", "_ends", "_cells"):
            setattr(other, name, getattr(self, name).copy())
        return other

    @property
    def free(self) -> int:
        """Pages that are free."""
        return int(self._ends[1] - self._ends[0])

    def free_ids(self) -> list[int]:
        """As `page_manager.PageManager.free_ids`."""
        ids: list[int] = self._ring[np.arange(*self._ends) % self.shape.pages].tolist()
        return ids

    def cells(self, sequences: Sequence[int]) -> np.ndarray:
        """As `page_manager.PageManager.cells`, a copy."""
        return self._cells[self.requests.entries(self.requests.require_known(sequences))]

    def lengths(self, sequences: Sequence[int]) -> np.ndarray:
        """As `page_manager.PageManager.lengths`, a copy."""
        return self._counts_of(sequences, 1)

    def used(self, sequences: Sequence[int]) -> np.ndarray:
        """As `page_manager.PageManager.used`, a copy."""
        return self._counts_of(sequences, 0)

    def _counts_of(self, sequences: Sequence[int], which: int) -> np.ndarray:
        """A copy of `used` (0) or `tokens` (1) of sequences."""
        entries = self.requests.entries(self.requests.require_known(sequences))
        return self._settled(self._slots(sequences))[which][entries]

    def prompt_allocate(self, prompts: Mapping[int, int]) -> Moved:
        """As `page_manager.PageManager.prompt_allocate`."""
        clean = self.requests.require_prompts(prompts)
        entries = self.requests.of_slots(list(islice(self.requests.free_slots, len(clean)))).ravel()
        lengths = np.repeat(np.array(list(clean.values()), np.int64), self.shape.layers * self.shape.heads)
        (counts, prefix), ids = np.empty((2, entries.size), np.int64), self._room(entries)
        came = events.prompt_allocate(self._pool, self._sizes, entries, lengths, counts, prefix, ids)
        if came < 0:
            self._refuse("prompt_allocate", prompts)
        self.requests.admit(clean)
        moved = self._moved(counts, prefix, ids[:came])
        self._allocated_pages += came
        return self._done(PROMPT, moved, NOTHING, sequences=list(clean), prompts=list(clean.values()))

    def prompt_release(self, sequences: Sequence[int], high: Any, low: Any) -> tuple[Moved, Moved]:
        """As `page_manager.PageManager.prompt_release`."""
        known = self.requests.require_known(sequences, running=False)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        entries = self.requests.entries(known).ravel()
        table = self.requests.table
        prompts = np.array([table[name].prompt for name in known], np.int64)
        lengths = np.repeat(prompts, self.shape.layers * self.shape.heads)
        (counts, prefix, lacking, after), ids = np.empty((4, entries.size), np.int64), self._room(entries)
        kept, moves = (n_high.ravel(), n_low.ravel()), (counts, prefix, lacking, after, ids)
        old, new, pruned = events.prompt_release(self._pool, self._sizes, entries, lengths, *kept, *moves)
        if old < 0:
            self._refuse("prompt_release", sequences, high, low)
        came = self._moved(lacking, after, ids[old : old + new]) if new else NOTHING
        went = self._moved(counts, prefix, ids[:old])
        self._allocated_pages, self._recycled_pages = self._allocated_pages + new, self._recycled_pages + old
        self.totals["shortfall"] += new
        self.totals["pruned"] += pruned
        for name in known:
            table[name].running = True
        return self._done(RELEASE, went, came, sequences=known, high=n_high, low=n_low), came

    def step_allocate(self, sequences: Sequence[int], high: Any, low: Any) -> Moved:
        """As `page_manager.PageManager.step_allocate`."""
        requests = self.requests
        known = requests.require_known(sequences, running=True)
        n_high, n_low = requests.require_heads(known, high, "high"), requests.require_heads(known, low, "low")
        self._forget(known)
        heads = requests.entries(known).reshape(-1), n_high.reshape(-1), n_low.reshape(-1)
        (counts, prefix), ids = np.empty((2, 2 * n_high.size), np.int64), self._room(heads[0])
        came, most, pruned = events.step_allocate(self._pool, self._sizes, *heads, counts, prefix, ids)
        if came < 0:
            self._refuse("step_allocate", sequences, high, low)
        moved = self._moved(counts, prefix, ids[:came])
        self._allocated_pages += came
        self.totals["pruned"] += pruned
        self.totals["step_pages"] = max(self.totals["step_pages"], most)
        for sequence in known:
            requests.table[sequence].seen += 1
        return self._done(STEP, moved, NOTHING, sequences=known, high=n_high, low=n_low)

    def growing(self, sequences: Sequence[int]) -> Steps:
        """Check sequences that grow together, for `needed`, `seen` and `grow`; valid until one of them ends.

        sequences: sequences whose prompts are compressed, S of them. Raises Refused: a sequence is unknown, named twice
        or not compressed.
        """
        every = self.requests
        known = every.require_known(sequences, running=True)
        requests = {request.slot: request for request in map(every.table.__getitem__, known)}
        slots = np.array(list(requests), np.int64)
        return Steps(known, requests, slots, network(2 * len(known) * self.shape.layers * self.shape.heads))

    def needed(self, steps: Steps) -> tuple[int, np.ndarray | None]:
        """Pages that a step of the sequences whose next step is known takes, and the slots of the others, if any.

        Those need `foresee`; int64.
        """
        blocks = self._blocks()
        pages, count = growth.needed(steps.slots, blocks)
        return pages, steps.slots[blocks[-1][steps.slots, 0] == growth.BLOCK] if count else None

    def seen(self, steps: Steps, slots: np.ndarray) -> np.ndarray:
        """Tokens so far of some of the sequences that grow together, by slots (K,): int64 (K,)."""
        if self._growing is not steps:
            self._note_seen(None)
        more = self._unseen
        return np.array([steps.requests[slot].seen + more for slot in slots.tolist()], np.int64)

    def foresee(self, slots: np.ndarray, classes: np.ndarray) -> None:
        """Set the classes of the tokens that sequences gain in their next 64 steps.

        slots: int64 (S,). classes: uint64 (S, 2, layers * heads), bit t: whether the token of step t is stored, and
        whether at the high precision. Raises Refused: a token is low without a low precision.
        """
        if not growth.foresee(self._pool, self._sizes, slots, classes, self._blocks()):
            raise Refused("page_manager: a token is low without a low precision; give classes without such tokens")

    def grow(self, steps: Steps, held: np.ndarray) -> np.ndarray:
        """As `step_allocate` with `lazy_pages`, by classes that `foresee` has set, without the ends of regions.

        held: int64 (slots, 4) += the tokens, high and low, and pages, high and low, that every sequence gains. Returns
        their sums, int64 (4,). Raises OutOfPages: too few pages are free. Raises TableOverflow: runs of a head meet.
        """
        gained = np.empty(4, np.int64)
        if not growth.grow(self._pool, steps.slots, self._blocks(), held, gained):
            lanes = (len(steps.names), self.shape.layers, self.shape.heads)
            gains = growth.growth(steps, self._blocks())
            self._refuse("step_allocate", steps.names, *(part.reshape(lanes) for part in gains))
        high, low, *pages = gained.tolist()
        totals, came = self.totals, pages[0] + pages[1]
        self._allocated_pages += came
        totals["pruned"] += len(steps.names) * self.shape.layers * self.shape.heads - high - low
        totals["step_pages"] = max(totals["step_pages"], int(came > 0))
        totals["levels"] += steps.sums[0]
        totals["adds"] += steps.sums[1]
        if self._growing is not steps:
            self._growing = self._note_seen(steps)
        self._unseen += 1
        return gained

    def finish(self, sequences: Sequence[int]) -> Moved:
        """As `page_manager.PageManager.finish`."""
        known = self.requests.require_known(sequences)
        entries = self.requests.entries(known).ravel()
        self._forget(known)
        (counts, prefix), ids = np.empty((2, 2 * entries.size), np.int64), self._room(entries)
        went = events.finish(self._pool, self._sizes, entries, counts, prefix, ids)
        moved = self._moved(counts, prefix, ids[:went])
        self._recycled_pages += went
        self.requests.remove(known)
        return self._done(FINISH, moved, NOTHING, sequences=known)

    @property
    def _pool(self) -> tuple[np.ndarray, ...]:
        """The registers that the kernels change."""
        return self._cells, *self._counts, self._ring, self._ends

    @property
    def _used(self) -> np.ndarray:
        """Pages of all entries."""
        return self._settled(np.arange(self.shape.slots))[0]

    @_used.setter
    def _used(self, used: np.ndarray) -> None:
        self._counts[0] = used
        self._ahead = None

    @property
    def _tokens(self) -> np.ndarray:
        """Tokens of all entries."""
        return self._settled(np.arange(self.shape.slots))[1]

    @_tokens.setter
    def _tokens(self, tokens: np.ndarray) -> None:
        self._counts[1] = tokens
        self._ahead = None

    def _settled(self, slots: np.ndarray) -> list[np.ndarray]:
        """`used` and `tokens`, exact for these slots."""
        if self._ahead is not None:
            growth.settle(self._pool, self._sizes, slots, self._ahead)
        return self._counts

    def _slots(self, sequences: Sequence[int]) -> np.ndarray:
        table = self.requests.table
        return np.array([table[name].slot for name in sequences], np.int64)

    def _blocks(self) -> tuple[np.ndarray, ...]:
        """`ahead` of the kernels of growth.py."""
        if self._ahead is None:
            self._ahead = growth.arrays(self.shape)
        return self._ahead

    @property
    def requests(self) -> Requests:
        """Sequences and their slots."""
        self._note_seen(None)
        return self._requests

    @requests.setter
    def requests(self, requests: Requests) -> None:
        self._requests, self._growing, self._unseen = requests, None, 0

    def _note_seen(self, then: Steps | None) -> Steps | None:
        """Count the steps that sequences have made together; returns `then`."""
        if self._growing is not None and self._unseen:
            for request in self._growing.requests.values():
                request.seen += self._unseen
            self._unseen = 0
        return then

    def _forget(self, sequences: Sequence[int]) -> None:
        """End the blocks of sequences."""
        if self._ahead is not None:
            slots = self._slots(sequences)
            self._settled(slots)
            self._ahead[-1][slots] = growth.BLOCK

    def _room(self, entries: np.ndarray) -> np.ndarray:
        """Array for the ids that a call moves: cells of the entries, twice, or all pages."""
        return np.empty(min(2 * entries.size * self.shape.length, self.shape.pages), np.int32)

    def _moved(self, counts: Any, prefix: Any, ids: Any) -> Moved:
        """The pages of a prefix sum; counts its levels and additions."""
        levels, adds = network(counts.size)
        self.totals["levels"] += levels
        self.totals["adds"] += adds
        return Moved(counts, prefix, ids)  # arrays: a model makes thousands of calls

    def _refuse(self, call: str, *arguments: Any) -> NoReturn:
        """Raise what the readable manager raises for this call."""
        readable = page_manager.PageManager(**vars(self.shape))
        readable.restore(self.snapshot())
        refuse_as(getattr(readable, call), *arguments)

    def _memories(self) -> dict[str, Any]:
        pages, (first, last) = self.shape.pages, self._ends.tolist()
        return {
            "list_start": first % pages,
            "list_end": (last - 1) % pages,
            "free": self.free,
            "ring": self._ring,
            "head": first,
            "tail": last,
            "used": self._used,
            "tokens": self._tokens,
            "cells": self._cells,
            "allocated": self._allocated_pages,
            "recycled": self._recycled_pages,
        }

    def _load(self, state: DeclaredState) -> None:
        self._ring, self._ends = np.array(state.ring, np.int32), np.array([state.head, state.tail], np.int64)
        self._cells = np.array(state.cells, np.int32).reshape(self._cells.shape)
        self._used, self._tokens = (np.array(x, np.int64).reshape(-1, 2) for x in (state.used, state.tokens))
        self._allocated_pages, self._recycled_pages = state.allocated, state.recycled


def _sizes(shape: Shape) -> np.ndarray:
    """`sizes` of the kernels."""
    return np.array([shape.high_tokens, shape.low_tokens or 0, shape.reserve, shape.lazy_pages, shape.scrub], np.int64)


@lru_cache(maxsize=32)
def sums_of(entries: int) -> np.ndarray:
    """`sums` of the kernels: levels and additions of prefix sums over up to two elements an entry."""
    return np.array([network(elements) for elements in range(2 * entries + 1)])


@compiled_run(UNIT)
def run(device: page_manager.PageManager, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all events of all managers in one kernel; for an invalid call the readable manager raises."""
    shape, (devices, times) = device.shape, inputs[0].shape
    widths = (), (), (shape.slots,), (shape.slots,), (shape.entries,), (shape.entries,)
    calls = [
        array.astype(np.int64).reshape(devices, times, *lanes) for array, lanes in zip(inputs, widths, strict=True)
    ]
    sums, totals = sums_of(shape.entries), np.zeros(len(device.counters), np.int64)
    starts = (2 * shape.entries, 0), (2 * shape.entries, 0), (shape.pages, -1), (shape.entries, 0)
    moved = tuple(np.full((devices, times, lanes), start) for lanes, start in starts)
    pools = _pools(shape, devices, 1 + times)
    if not walk(*calls, _sizes(shape), sums, moved, pools, _requests(shape), totals):
        raise Rejected
    cells, used, tokens, ring, ends = (array[:, 1:] for array in pools)
    left, came = ends[..., 0], ends[..., 1]
    bounds = left % shape.pages, (came - 1) % shape.pages, came - left
    for output, column in zip(outputs, (*moved, *bounds, ring, left, came, used, tokens, cells), strict=True):
        output[...] = column.reshape(output.shape)
    return totals.tolist()


def _pools(shape: Shape, devices: int, times: int) -> tuple[np.ndarray, ...]:
    """Registers of managers at some times, (devices, times, ...), as after a reset."""
    entries, lead = shape.entries, (devices, times)
    return (
        np.full((*lead, entries, shape.length), -1, np.int32),
        np.zeros((*lead, entries, 2), np.int64),
        np.zeros((*lead, entries, 2), np.int64),
        np.tile(np.arange(shape.pages), (*lead, 1)),
        np.tile(np.array([0, shape.pages]), (*lead, 1)),
    )


def _requests(shape: Shape) -> tuple[np.ndarray, ...]:
    """`requests` of the kernel."""
    return (
        np.empty((shape.slots, 3), np.int64),
        np.empty(shape.slots, np.int64),
        np.empty(2, np.int64),
        *np.empty((3, shape.entries), np.int64),
    )
