"""Compiled forms of page_manager: the manager over arrays, for models, and `run`, for all events of many managers.

Paper: [leankv §5.3]. The kernels of events.py do the calls of both.
"""

import copy
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from refemu.arith.checks import refuse_as
from refemu.units.declaration import DeclaredState
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import UNIT
from refemu.units.leankv.page_manager.compiled import events
from refemu.units.leankv.page_manager.compiled.walk import walk
from refemu.units.leankv.page_manager.registers import FINISH, PROMPT, RELEASE, STEP
from refemu.units.leankv.page_manager.requests import Moved, Shape
from refemu.units.leankv.prefix_sum.compiled import network


class PageManager(page_manager.PageManager):
    """As `page_manager.PageManager`, with arrays in the results of its calls."""

    def _empty(self) -> None:
        shape = self.shape
        self._ring, self._ends = np.arange(shape.pages), np.array([0, shape.pages])
        self._cells = np.full((shape.entries, shape.length), -1, np.int32)
        self._used, self._tokens = (np.zeros((shape.entries, 2), np.int64) for _ in range(2))
        self._sizes = _sizes(shape)
        self._allocated_pages = self._recycled_pages = 0

    def fork(self) -> "PageManager":
        """As `page_manager.PageManager.fork`."""
        other = copy.copy(self)
        other.requests, other.totals = self.requests.fork(), dict(self.totals)
        for name in ("_ring", "_ends", "_cells", "_used", "_tokens"):
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
        return self._tokens[self.requests.entries(self.requests.require_known(sequences))]

    def used(self, sequences: Sequence[int]) -> np.ndarray:
        """As `page_manager.PageManager.used`, a copy."""
        return self._used[self.requests.entries(self.requests.require_known(sequences))]

    @property
    def sections(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and pages of all entries, high and low: (entries, 2) each, not copied."""
        return self._tokens, self._used

    def prompt_allocate(self, prompts: Mapping[int, int]) -> Moved:
        """As `page_manager.PageManager.prompt_allocate`."""
        clean = self.requests.require_prompts(prompts)
        entries = self.requests.of_slots(list(islice(self.requests.free_slots, len(clean)))).ravel()
        lengths = np.repeat(np.array(list(clean.values()), np.int64), self.shape.layers * self.shape.heads)
        (counts, prefix), ids = np.empty((2, entries.size), np.int64), self._room()
        came = events.prompt_allocate(self._pool, self._sizes, entries, lengths, counts, prefix, ids)
        if came < 0:
            self._refuse("prompt_allocate", prompts)
        self.requests.admit(clean)
        moved = self._moved(counts, prefix, ids[:came])
        self._allocated_pages += came
        return self._done(PROMPT, moved, Moved(), sequences=list(clean), prompts=list(clean.values()))

    def prompt_release(self, sequences: Sequence[int], high: Any, low: Any) -> tuple[Moved, Moved]:
        """As `page_manager.PageManager.prompt_release`."""
        known = self.requests.require_known(sequences, running=False)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        entries = self.requests.entries(known).ravel()
        prompts = np.array([self.requests.table[s].prompt for s in known], np.int64)
        lengths = np.repeat(prompts, self.shape.layers * self.shape.heads)
        (counts, prefix, lacking, after), ids = np.empty((4, entries.size), np.int64), self._room()
        kept, moves = (n_high.ravel(), n_low.ravel()), (counts, prefix, lacking, after, ids)
        old, new, pruned = events.prompt_release(self._pool, self._sizes, entries, lengths, *kept, *moves)
        if old < 0:
            self._refuse("prompt_release", sequences, high, low)
        came = self._moved(lacking, after, ids[old : old + new]) if new else Moved()
        went = self._moved(counts, prefix, ids[:old])
        self._allocated_pages, self._recycled_pages = self._allocated_pages + new, self._recycled_pages + old
        self.totals["shortfall"] += new
        self.totals["pruned"] += pruned
        for sequence in known:
            self.requests.table[sequence].running = True
        return self._done(RELEASE, went, came, sequences=known, high=n_high, low=n_low), came

    def step_allocate(self, sequences: Sequence[int], high: Any, low: Any) -> Moved:
        """As `page_manager.PageManager.step_allocate`."""
        known = self.requests.require_known(sequences, running=True)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        (counts, prefix), ids = np.empty((2, 2 * n_high.size), np.int64), self._room()
        heads = self.requests.entries(known).reshape(-1), n_high.reshape(-1), n_low.reshape(-1)
        came, most, pruned = events.step_allocate(self._pool, self._sizes, *heads, counts, prefix, ids)
        if came < 0:
            self._refuse("step_allocate", sequences, high, low)
        moved = self._moved(counts, prefix, ids[:came])
        self._allocated_pages += came
        self.totals["pruned"] += pruned
        self.totals["step_pages"] = max(self.totals["step_pages"], most)
        for sequence in known:
            self.requests.table[sequence].seen += 1
        return self._done(STEP, moved, Moved(), sequences=known, high=n_high, low=n_low)

    def grow(self, sequences: Sequence[int], growth: np.ndarray) -> np.ndarray:
        """As `step_allocate` with `lazy_pages`, without the ends of regions.

        Parameters
        ----------
        sequences : sequence of int
            Sequences whose prompts are compressed, S of them.
        growth : uint8 (S, layers * heads)
            Section that gains a token: 0 none, 1 low, 2 high.

        Returns
        -------
        ndarray of int64 (S, 4)
            Tokens, high and low, and pages, high and low, that every sequence gains.
        """
        known, sums = self.requests.require_known(sequences, running=True), np.zeros((len(sequences), 4), np.int64)
        slots = np.array([self.requests.table[name].slot for name in known], np.int64)
        came, pruned = events.grow(self._pool, self._sizes, slots, growth, sums)
        if came < 0:
            lanes = (len(known), self.shape.layers, self.shape.heads)
            self._refuse("step_allocate", sequences, *((growth == kind).reshape(lanes).astype(int) for kind in (2, 1)))
        self._allocated_pages += came
        self.totals["pruned"] += pruned
        self.totals["step_pages"] = max(self.totals["step_pages"], int(came > 0))
        self._count(2 * growth.size)
        for name in known:
            self.requests.table[name].seen += 1
        return sums

    def finish(self, sequences: Sequence[int]) -> Moved:
        """As `page_manager.PageManager.finish`."""
        known = self.requests.require_known(sequences)
        entries = self.requests.entries(known).ravel()
        (counts, prefix), ids = np.empty((2, 2 * entries.size), np.int64), self._room()
        went = events.finish(self._pool, self._sizes, entries, counts, prefix, ids)
        moved = self._moved(counts, prefix, ids[:went])
        self._recycled_pages += went
        self.requests.remove(known)
        return self._done(FINISH, moved, Moved(), sequences=known)

    @property
    def _pool(self) -> tuple[np.ndarray, ...]:
        """The registers that the kernels change."""
        return self._cells, self._used, self._tokens, self._ring, self._ends

    def _room(self) -> np.ndarray:
        """Array for the ids that a call moves."""
        return np.empty(self.shape.pages, np.int64)

    def _moved(self, counts: Any, prefix: Any, ids: Any) -> Moved:
        """The pages of a prefix sum; counts its levels and additions."""
        self._count(counts.size)
        return Moved(counts, prefix, ids)  # arrays: a model makes thousands of calls

    def _count(self, size: int) -> None:
        """Count the levels and additions of a prefix sum over `size` elements."""
        levels, adds = network(size)
        self.totals["levels"] += levels
        self.totals["adds"] += adds

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
        self._ring, self._ends = np.array(state.ring, np.int64), np.array([state.head, state.tail], np.int64)
        self._cells = np.array(state.cells, np.int32).reshape(self._cells.shape)
        self._used, self._tokens = (np.array(x, np.int64).reshape(-1, 2) for x in (state.used, state.tokens))
        self._allocated_pages, self._recycled_pages = state.allocated, state.recycled


def _sizes(shape: Shape) -> np.ndarray:
    """`sizes` of the kernels."""
    return np.array([shape.high_tokens, shape.low_tokens or 0, shape.reserve, shape.lazy_pages, shape.scrub], np.int64)


@compiled_run(UNIT)
def run(device: page_manager.PageManager, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all events of all managers in one kernel; for an invalid call the readable manager raises."""
    shape, (devices, times) = device.shape, inputs[0].shape
    widths = (), (), (shape.slots,), (shape.slots,), (shape.entries,), (shape.entries,)
    calls = [
        array.astype(np.int64).reshape(devices, times, *lanes) for array, lanes in zip(inputs, widths, strict=True)
    ]
    sums, totals = (
        np.array([network(n) for n in range(2 * shape.entries + 1)]),
        np.zeros(len(device.counters), np.int64),
    )
    starts = (2 * shape.entries, 0), (2 * shape.entries, 0), (shape.pages, -1), (shape.entries, 0)
    moved = tuple(np.full((devices, times, lanes), start) for lanes, start in starts)
    pools = _pools(shape, devices, 1 + times)
    if not walk(*calls, _sizes(shape), sums, moved, pools, _requests(shape), totals):
        refuse_as(UNIT.run, *inputs, **vars(shape))
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
