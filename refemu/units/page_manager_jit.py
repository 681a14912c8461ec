"""Twin of page_manager: the same manager over arrays, whose cost per head is that of a few array operations.

Paper: [leankv §5.3]. Read page_manager.py first. Kernels move page ids: those of page_table_jit.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.arith.jit import kernel
from refemu.units import page_manager
from refemu.units.page_manager import drained
from refemu.units.page_manager_parts import Moved, require_pages, up
from refemu.units.page_manager_ports_parts import FINISH, PROMPT, RELEASE, STEP, Result, State
from refemu.units.page_table import HIGH
from refemu.units.page_table_jit import append_all, clear_all, split_all
from refemu.units.prefix_sum_jit import network
from refemu.units.unit import fields, lanes


class PageManager(page_manager.PageManager):
    """As `page_manager.PageManager`; the fields of what its calls return are arrays."""

    def _reset(self) -> None:
        shape = self.shape
        self._ring, self._head, self._tail = np.arange(shape.pages), 0, shape.pages
        self._cells = np.full((shape.entries, shape.length), -1, np.int32)
        self._used, self._tokens = (np.zeros((shape.entries, 2), np.int64) for _ in range(2))
        self._allocated_pages = self._recycled_pages = 0

    def fork(self) -> "PageManager":
        """As `page_manager.PageManager.fork`."""
        other = copy.copy(self)
        other.requests, other.counters = self.requests.fork(), copy.copy(self.counters)
        for name in ("_ring", "_cells", "_used", "_tokens"):
            setattr(other, name, getattr(self, name).copy())
        return other

    @property
    def free(self) -> int:
        """Pages that are free."""
        return self._tail - self._head

    def free_ids(self) -> list[int]:
        """As `page_manager.PageManager.free_ids`."""
        ids: list[int] = self._ring[np.arange(self._head, self._tail) % self.shape.pages].tolist()
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

    def prompt_allocate(self, prompts: Mapping[int, int]) -> Moved:
        """As `page_manager.PageManager.prompt_allocate`."""
        clean = self.requests.require_prompts(prompts)
        tokens = np.array(list(clean.values()), np.int64).reshape(-1, 1, 1)
        shape = (len(clean), self.shape.layers, self.shape.heads)
        counts = np.broadcast_to(up(tokens, self.shape.high_tokens) + self.shape.reserve, shape)
        self.requests.require_cells(np.zeros(shape, np.int64), counts)
        require_pages(int(integers.total(counts)), self.free)
        self.requests.admit(clean)
        entries = self.requests.entries(list(clean)).ravel()
        moved = self._take(counts.ravel())
        append_all(self._cells, self._used, entries, _two(moved.counts), moved.ids)
        self._tokens[entries, HIGH] = np.broadcast_to(tokens, shape).ravel()
        return self._done(PROMPT, moved, Moved(), sequences=list(clean), prompts=list(clean.values()))

    def prompt_release(self, sequences: Sequence[int], high: Any, low: Any) -> tuple[Moved, Moved]:
        """As `page_manager.PageManager.prompt_release`."""
        known = self.requests.require_known(sequences, running=False)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        self.requests.require_kept(known, n_high, n_low)
        kept = np.stack([up(n_high, self.shape.high_tokens), up(n_low, self.shape.low_tokens or 1)], axis=-1)
        numbers = self.requests.entries(known)
        entries, held = numbers.ravel(), self._used[numbers][..., HIGH]
        lacking = np.maximum(kept[..., 0] + kept[..., 1] - held, 0)
        self.requests.require_cells(held, lacking)
        require_pages(int(integers.total(lacking)), self.free)
        came = self._take(lacking.ravel()) if lacking.any() else Moved()
        if lacking.any():
            append_all(self._cells, self._used, entries, _two(came.counts), came.ids)
        self.counters.shortfall += len(came.ids)
        surplus = (held + lacking - kept[..., 0] - kept[..., 1]).ravel()
        given = np.empty(int(integers.total(surplus)), np.int64)
        split_all(self._cells, self._used, entries, kept.reshape(-1, 2), self.shape.scrub, given)
        went = self._give(given, surplus)
        self._tokens[entries] = np.stack([n_high, n_low], axis=-1).reshape(-1, 2)
        for sequence in known:
            self.requests.table[sequence].running = True
        prompts = np.array([self.requests.table[s].prompt for s in known], np.int64).reshape(-1, 1, 1)
        self.counters.pruned += int(integers.total(prompts - n_high - n_low))
        return self._done(RELEASE, went, came, sequences=known, high=n_high, low=n_low), came

    def step_allocate(self, sequences: Sequence[int], high: Any, low: Any) -> Moved:
        """As `page_manager.PageManager.step_allocate`."""
        known = self.requests.require_known(sequences, running=True)
        grow = [self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low"))]
        counts, prefix = np.empty((2, 2 * grow[0].size), np.int64)
        sizes = np.array([self.shape.high_tokens, self.shape.low_tokens or 0, self.shape.lazy_pages, self.free,
                          self._head], np.int64)
        ids, most, grown = _grow(self._cells, self._used, self._tokens, self.requests.entries(known).reshape(-1),
                                 grow[0].reshape(-1), grow[1].reshape(-1), sizes, self._ring, counts, prefix)
        if most < 0:
            self._refuse_step(known, grow)
        self._count(counts.size)
        self._head, self._allocated_pages = self._head + len(ids), self._allocated_pages + len(ids)
        self.counters.pruned += grow[0].size - int(grown)
        self.counters.step_pages = max(self.counters.step_pages, int(most))
        for sequence in known:
            self.requests.table[sequence].seen += 1
        moved: Any = Moved(counts, prefix, ids)  # type: ignore[arg-type]
        return self._done(STEP, moved, Moved(), sequences=known, high=grow[0], low=grow[1])

    def _refuse_step(self, known: Sequence[int], grow: Sequence[np.ndarray]) -> None:
        """Raise what the readable manager raises for this step."""
        self.requests.require_deltas(known, *grow)
        wanted = self._full(known) & ((np.stack(grow, axis=-1) > 0) | (not self.shape.lazy_pages))
        held = self.used(known)
        self.requests.require_cells(held[..., 0] + held[..., 1], np.count_nonzero(wanted, axis=-1))
        require_pages(int(np.count_nonzero(wanted)), self.free)

    def finish(self, sequences: Sequence[int]) -> Moved:
        """As `page_manager.PageManager.finish`."""
        known = self.requests.require_known(sequences)
        entries = self.requests.entries(known).ravel()
        counts = self._used[entries].ravel()
        given = np.empty(int(integers.total(counts)), np.int64)
        clear_all(self._cells, self._used, entries, self.shape.scrub, given)
        self._tokens[entries] = 0
        moved = self._give(given, counts)
        self.requests.remove(known)
        return self._done(FINISH, moved, Moved(), sequences=known)

    def _take(self, counts: np.ndarray) -> Any:
        prefix = self._prefix(counts, self._head)
        total = int(integers.total(counts))
        ids = self._ring[(self._head + np.arange(total)) % self.shape.pages]
        self._head, self._allocated_pages = self._head + total, self._allocated_pages + total
        return Moved(counts, prefix, ids)  # type: ignore[arg-type]  # arrays: a model makes thousands of calls

    def _give(self, ids: np.ndarray, counts: np.ndarray) -> Any:
        prefix = self._prefix(counts, self._tail)
        self._ring[(self._tail + np.arange(len(ids))) % self.shape.pages] = ids
        self._tail, self._recycled_pages = self._tail + len(ids), self._recycled_pages + len(ids)
        return Moved(counts, prefix, ids)  # type: ignore[arg-type]

    def _prefix(self, counts: np.ndarray, base: int) -> np.ndarray:
        self._count(counts.size)
        return np.cumsum(counts) + base % self.shape.pages

    def _count(self, elements: int) -> None:
        """A prefix sum."""
        levels, adds = network(elements)
        self.counters.levels, self.counters.adds = self.counters.levels + levels, self.counters.adds + adds

    def _registers(self) -> dict[str, Any]:
        pages = self.shape.pages
        return {"list_start": self._head % pages, "list_end": (self._tail - 1) % pages, "free": self.free,
                "ring": lanes(tuple(self._ring.tolist())), "head": self._head, "tail": self._tail,
                "used": tuple(self._used.ravel().tolist()), "tokens": tuple(self._tokens.ravel().tolist()),
                "cells": lanes(tuple(self._cells.ravel().tolist())), "allocated": self._allocated_pages,
                "recycled": self._recycled_pages}

    def _load(self, state: State) -> None:
        self._ring, self._head, self._tail = np.array(fields(state.ring), np.int64), state.head, state.tail
        self._cells = np.array(fields(state.cells), np.int32).reshape(self._cells.shape)
        self._used, self._tokens = (np.array(x, np.int64).reshape(-1, 2) for x in (state.used, state.tokens))
        self._allocated_pages, self._recycled_pages = state.allocated, state.recycled


@kernel
def _grow(cells, used, tokens, entries, high, low, sizes, ring, counts, prefix):  # type: ignore[no-untyped-def]
    """One step of entries whose sections grow by `high` and `low`: pages from the ring, tokens, counts and prefix sums.

    sizes: tokens of a high and of a low page (0: none), whether pages wait for a token, free pages, pages that left.
    Returns the ids, the most pages of an entry and the tokens that came; -1 pages, and nothing changed, where something
    has to be refused.
    """
    total, most, grown, none = np.int64(0), np.int64(0), np.int64(0), np.empty(0, np.int64)
    for i in range(entries.size):
        own, need = entries[i], np.int64(0)
        for s in range(2):
            more = s * low[i] + (1 - s) * high[i]
            full = sizes[s] > 0 and tokens[own, s] == used[own, s] * sizes[s]
            counts[2 * i + s] = np.int64(full and (more > 0 or sizes[2] == 0))
            need += counts[2 * i + s]
            total += counts[2 * i + s]
            prefix[2 * i + s] = sizes[4] % ring.size + total
        if min(high[i], low[i]) < 0 or high[i] + low[i] > 1 or (sizes[1] == 0 and low[i] > 0):
            return none, np.int64(-1), grown
        if used[own, 0] + used[own, 1] + need > cells.shape[1]:
            return none, np.int64(-1), grown
        most, grown = max(most, need), grown + high[i] + low[i]
    if total > sizes[3]:
        return none, np.int64(-1), grown
    ids, at = np.empty(total, np.int64), np.int64(0)
    for i in range(entries.size):
        own = entries[i]
        for s in range(2):
            if counts[2 * i + s] > 0:
                ids[at] = ring[(sizes[4] + at) % ring.size]
                cells[own, used[own, s] + s * (cells.shape[1] - 1 - 2 * used[own, s])] = ids[at]
                used[own, s] += 1
                at += 1
        tokens[own, 0] += high[i]
        tokens[own, 1] += low[i]
    return ids, most, grown


def _two(counts: Any) -> np.ndarray:
    """Counts of high pages beside zeros for low ones."""
    return np.stack([counts, np.zeros_like(counts)], axis=-1)


def run(op: Any, members: Any, sequences: Any, prompts: Any, high: Any, low: Any, **parameters: Any) -> Result:
    """As `page_manager.run`."""
    return drained(PageManager, op, members, sequences, prompts, high, low, **parameters)
