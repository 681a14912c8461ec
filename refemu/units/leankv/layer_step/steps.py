"""Generation steps of KV heads that share a pool of pages: decide, allocate, move, write, attend, add scores.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]. Composed of generation_compressor, page_manager (with its list, table
and prefix sum), kv_compressor (with its quantizer) and paged_attention; the pages are here, and every wire between the
units is a call of `Head`. Decisions: D-leankv-62 (stages of a step), D-leankv-63 (how a prompt comes in).
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index, plain
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, REPLACE
from refemu.units.leankv.layer_step.heads import Head, Run, operation
from refemu.units.leankv.layer_step.registers import (
    ADMIT,
    ATTENDED,
    DECIDED,
    FINISH,
    LOAD,
    MANAGED,
    NONE,
    WRITTEN,
    State,
    ports_of,
)
from refemu.units.leankv.page_manager import PageManager, Shape
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import CONSTANTS, Pages
from refemu.units.ports import Ports, fields, lanes
from refemu.units.stepped import Clocked

REQUEST = 0  #: name of the one sequence
TABLE = ("pages", "max_len", "reserve_low", "table_extra", "table_tokens", "lazy_pages", "scrub")  #: of the manager


class Steps(Clocked[State]):
    """KV heads of one request.

    `admit` gives the heads pages for a prompt and takes back those of tokens that are not kept, `load` writes a kept
    token, `finish` gives everything back. A generation step is `decide`, `allocate`, then head by head `requantize`
    where a token moves, `write`, and the events of attention up to `score` (D-leankv-62).
    """

    kv_heads: int
    heads: int
    head_size: int

    def _build(self, kv_heads: int, parameters: Mapping[str, Any]) -> None:
        """Take the parameters, and make the units."""
        for name, value in parameters.items():
            setattr(self, name, plain(value))
        self.kv_heads = kv_heads
        values: dict[str, Any] = {name: getattr(self, name) for name in parameters}
        constants = {name: values[name] for name in CONSTANTS}
        pairs = values["high"], values["low"], values["page_bytes"], values["preset"]
        self.layouts: Pages = Pages.of(self.head_size, *pairs, **constants)
        high, low = self.layouts.sections
        self.shape: Shape = Shape(
            layers=1,
            heads=kv_heads,
            high_tokens=high.tokens,
            low_tokens=low.tokens if self.layouts.low else None,
            slots=1,
            **{name: values[name] for name in TABLE},
        )
        self.slots: int = self.shape.length * max(high.tokens, low.tokens)
        self.ports: Ports = ports_of(self.layouts, self.shape, kv_heads, self.heads, values["policy"])
        self.manager: PageManager = PageManager(**asdict(self.shape))
        self.units: list[Head] = [Head(values, self.shape.length, self.slots) for _ in range(kv_heads)]
        self.pool: np.ndarray = high.empty(self.shape.pages)
        none = lanes((-1,) * 2 * kv_heads)
        self.state: State = self.reset(State, window=1, taken=none, pool=self.pool.tobytes(), **self._registers())
        self._in_step = self.state  # the State that the registers of the units belong to

    def _registers(self) -> dict[str, Any]:
        """Registers of the units as a State has them."""
        entries, request = range(self.kv_heads), self.manager.requests.table.get(REQUEST)
        table = self.manager.table
        return {
            "manager": self.manager.state,
            "heads": tuple(unit.state for unit in self.units),
            "seen": request.seen if request else 0,
            "stored": tuple(count for entry in entries for count in table.tokens(entry)),
            "cells": lanes(tuple(page for entry in entries for page in table.row(entry))),
            "list_start": self.manager.list.start,
            "free": self.manager.free,
        }

    def restore(self, state: State) -> None:
        """Restore every register to its value when `state` was taken.

        Parameters
        ----------
        state : State
            A State of this unit.

        Raises
        ------
        Refused
            A port of the State is out of range.
        RefusedType
            The State is not this unit's.
        """
        super().restore(state)
        self._resume()

    def _resume(self) -> None:
        """Registers of the units as the State has them."""
        state: Any = self.state
        self.manager.restore(state.manager)
        for unit, registers in zip(self.units, state.heads, strict=True):
            unit.restore(registers)
        self.pool = np.frombuffer(state.pool, np.uint16).reshape(self.shape.pages, -1).copy()
        self._in_step = state

    @property
    def busy(self) -> bool:
        """Whether events of a generation step are left."""
        state = self.state
        done = ("reset", "admit", "load", "finish")
        return state.event not in done and (state.event != "score" or state.head < self.kv_heads - 1)

    def _open(self, *inputs: Any) -> State:
        """The only event of an operation, or the first of a generation step."""
        before = self.state
        cleared = {port.name: lanes((-1 if port.name == "taken" else 0,) * port.lanes) for port in self.ports.outputs}
        self.state = self.latched(*inputs, **cleared, head=0)
        try:
            events = {ADMIT: self._admit, LOAD: self._load, FINISH: self._finish}
            return events.get(self.state.op, self._decide)()
        except Refused:
            self.state = before
            self._resume()
            raise

    def _continue(self) -> State:
        if self.state is not self._in_step:
            self._resume()
        event, head = self.state.event, self.state.head
        if event == "decide":
            return self._allocate()
        if event == "requantize":
            return self._write_on()
        if event == "write":
            return self._attend()
        if event in ("allocate", "score"):
            return self._write(head + (event == "score"))
        return self._attended(self.units[head].attention.step())

    def _done(self, event: str, **changed: Any) -> State:
        """The State after an event: registers and counters of the units, and what else changed."""
        before = self.state
        counted = {name: getattr(before, name) for name in (*DECIDED, *WRITTEN, *ATTENDED)}
        registers = self._registers()
        for old, new in zip(before.heads, registers["heads"], strict=True):
            for names, unit in ((DECIDED, "compressor"), (WRITTEN, "writer"), (ATTENDED, "attention")):
                for name, counter in names.items():
                    counted[name] += getattr(getattr(new, unit), counter) - getattr(getattr(old, unit), counter)
        counted |= {name: getattr(registers["manager"], counter) for name, counter in MANAGED.items()}
        self.state = self._in_step = replace(
            before, event=event, pool=self.pool.tobytes(), **{**registers, **counted, **changed}
        )
        return self.state

    def _runs(self, head: int) -> tuple[Run, Run]:
        """Ids of the pages of a head."""
        return self.manager.table.run(head, HIGH), self.manager.table.run(head, LOW)

    def _of(self, port: str, head: int) -> Any:
        """Lanes of a port that belong to a head."""
        values = fields(getattr(self.state, port))
        size = len(values) // self.kv_heads
        return values[head * size : (head + 1) * size]

    def _put(self, port: str, head: int, words: Any) -> Any:
        """The lanes of a port with those of a head set, zeros behind a shorter record."""
        values = list(fields(getattr(self.state, port)))
        size = len(values) // self.kv_heads
        values[head * size : (head + 1) * size] = [*words, *(0,) * (size - len(words))]
        return lanes(tuple(values))

    def _tokens(self, head: int) -> tuple[int, int]:
        """Tokens that a head stores, high and low."""
        return self.manager.table.tokens(head)

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse vectors that are not finite (D-leankv-9)."""
        for name, words in zip(("key", "value", "q"), inputs[7:10], strict=True):
            bad = words & 0x7C00 == 0x7C00
            if bad.any():
                index = first_index(bad)
                raise Refused(f"{self.name}: {name} must be finite fp16, got {int(words[index]):#06x}{at(index)}")

    # A request comes, and goes.

    def _admit(self) -> State:
        """Pages for a prompt, and back those that its kept tokens do not need (D-leankv-63)."""
        manager, state = self.manager.fork(), self.state
        manager.prompt_allocate({REQUEST: state.prompt})
        shape = (1, 1, self.kv_heads)
        kept = (np.array(fields(words), np.int64).reshape(shape) for words in (state.keep_high, state.keep_low))
        manager.prompt_release([REQUEST], *kept)
        self.manager = manager
        return self._done("admit", loaded=(0,) * 2 * self.kv_heads)

    def _load(self) -> State:
        """A kept token of every head that loads one, into the next slot of its section (D-leankv-63)."""
        loaded, written, words = list(self.state.loaded), self.state.written, 0
        for head, code in enumerate(fields(self.state.section)):
            if code == NONE:
                continue
            section = code - 1
            self._require_load(head, section)
            state = self.units[head].write(
                self.pool,
                self._runs(head),
                self._next_slots(head),
                APPEND_LOW if section == LOW else APPEND_HIGH,
                **self._token(head, fields(self.state.score)[head], fields(self.state.position)[head]),
            )
            record = state.written[: self.layouts.sections[section].record_words]
            loaded[2 * head + section] += 1
            written = self._merged(written, "written", head, record)
            words += len(record)
        return self._done("load", loaded=tuple(loaded), written=written, record_words=self.state.record_words + words)

    def _merged(self, lanes_of: Any, port: str, head: int, record: Any) -> Any:
        """As `_put`, into lanes that are not committed yet."""
        self.state = replace(self.state, **{port: lanes_of})
        return self._put(port, head, record)

    def _require_load(self, head: int, section: int) -> None:
        """Refuse a token without a place, and positions that no token of the prompt can have."""
        request = self.manager.requests.table.get(REQUEST)
        kept, loaded = self._tokens(head)[section], self.state.loaded[2 * head + section]
        what = f"{self.name}: head {head}"
        if loaded == kept:
            raise Refused(f"{what}: {kept} {('high', 'low')[section]} tokens are kept, and loaded already")
        assert request is not None, "without one no token is kept"
        position = fields(self.state.position)[head]
        if position >= request.prompt:
            raise Refused(f"{what}: position {position} in a prompt of {request.prompt} tokens")
        held = self.units[head].scores(self.pool, self._runs(head), self._loaded(head))[1]
        if position in held and not getattr(self, "epoch"):  # noqa: B009  set by name
            raise Refused(f"{what}: position {position} is loaded already")

    def _next_slots(self, head: int) -> tuple[int, int]:
        """High and low slot of the next token of a prompt: in ascending order (D-leankv-63)."""
        return self._loaded(head)

    def _loaded(self, head: int) -> tuple[int, int]:
        return self.state.loaded[2 * head], self.state.loaded[2 * head + 1]

    def _token(self, head: int, score: int, position: int, victim: int = 0, low_slot: int = 0) -> dict[str, Any]:
        """Inputs of kv_compressor beside the operation."""
        vectors = {"key": self._of("key", head), "value": self._of("value", head)}
        return {"victim": victim, "low_slot": low_slot, **vectors, "score": score, "position": position}

    def _finish(self) -> State:
        """All pages go back."""
        self.manager.finish([REQUEST])
        return self._done("finish", loaded=(0,) * 2 * self.kv_heads)

    # A generation step (D-leankv-62).

    def _decide(self) -> State:
        """All heads decide from the scores before the step; a step that lacks pages is refused as a whole."""
        state, request = self.state, self.manager.requests.table.get(REQUEST)
        if request is None:
            raise Refused(f"{self.name}: a step needs a request")
        missing = np.array(state.stored) - np.array(state.loaded) if state.seen == request.prompt else np.zeros(1)
        if missing.any():
            head, section = divmod(int(first_index(missing != 0)[0]), 2)
            kept, loaded = state.stored[2 * head + section], state.loaded[2 * head + section]
            raise Refused(f"{self.name}: head {head}: {loaded} of {kept} {('high', 'low')[section]} tokens are loaded")
        decided = [self._decided(head, request.seen, request.prompt) for head in range(self.kv_heads)]
        self._grown(self.manager.fork(), decided)
        columns = {
            name: lanes(tuple(getattr(each, name) for each in decided)) for name in ("choice", "victim", "low_slot")
        }
        words = 4 * sum_of(state.stored)
        return self._done("decide", **columns, plan_words=state.plan_words + words)

    def _decided(self, head: int, n: int, prompt: int) -> Any:
        """The decision of one head."""
        others = n, prompt, self.state.window, self.state.thresholds
        return self.units[head].decide(self.pool, self._runs(head), self._tokens(head), *others)

    def _grown(self, manager: PageManager, decided: Any) -> Any:
        """Pages for the sections that grow, of all heads by one call."""
        deltas = (
            np.array([getattr(each, name) for each in decided], np.int64).reshape(1, 1, -1)
            for name in ("delta_high", "delta_low")
        )
        return manager.step_allocate([REQUEST], *deltas)

    def _allocate(self) -> State:
        """A page for every section that grows beyond its last one."""
        moved = self._grown(self.manager, [unit.compressor.state for unit in self.units])
        ids = iter(moved.ids)
        taken = tuple(next(ids) if count else -1 for count in moved.counts)
        return self._done("allocate", taken=taken)

    def _write(self, head: int) -> State:
        """The first event of kv_compressor: the move, or else the write."""
        unit = self.units[head]
        decided, stored = unit.compressor.state, self._tokens(head)
        before = stored[0] - decided.delta_high, stored[1] - decided.delta_low
        self.state = replace(self.state, head=head)
        op = operation(decided)
        place = {"victim": decided.victim, "low_slot": decided.low_slot} if op == REPLACE else {}
        if op not in (REPLACE, APPEND_HIGH):
            place = {"victim": decided.victim}
        token = self._token(head, 0, decided.n, **place)
        state = unit.write(self.pool, self._runs(head), before, op, **token)
        return self._moved(state) if op == REPLACE else self._written(state)

    def _moved(self, state: Any) -> State:
        """A token stands in the low section now."""
        before, (high, low) = self.state, self.layouts.sections
        return self._done(
            "requantize",
            moved=self._put("moved", before.head, state.moved),
            move_words=before.move_words + high.record_words,
            record_words=before.record_words + low.record_words,
        )

    def _write_on(self) -> State:
        """The new token in the slot of the token that moved."""
        head = self.state.head
        return self._written(self.units[head].write_on(self.pool, self._runs(head)))

    def _written(self, state: Any) -> State:
        before, words = self.state, self.layouts.high.record_words
        written = self._put("written", before.head, state.written[:words])
        return self._done("write", written=written, record_words=before.record_words + words)

    def _attend(self) -> State:
        """The first event of attention over the pages, the new token among them (D-leankv-62)."""
        head = self.state.head
        unit, n = self.units[head], self.units[head].compressor.state.n
        q = self._of("q", head)
        return self._attended(unit.attend(self.pool, self._runs(head), self._tokens(head), q, n))

    def _attended(self, state: Any) -> State:
        """An event of attention; behind the last one its scores go into the pages."""
        head = self.state.head
        if state.event != "score":
            return self._done(state.event)
        self._score(head, state)
        return self._done(
            "score",
            out=self._put("out", head, state.out),
            p=self._put("p", head, fields(state.p)),
            scores=self._put("scores", head, self._scores_of(head)),
        )

    def _score(self, head: int, state: Any) -> None:
        """Scores of the stored tokens after the step, into their pages."""
        self.units[head].add_scores(self.pool, self._runs(head), self._tokens(head), state)

    def _scores_of(self, head: int) -> list[int]:
        """Scores in the pages, high slots, then low ones."""
        return self.units[head].scores(self.pool, self._runs(head), self._tokens(head))[0]


def sum_of(counts: Any) -> int:
    """The sum of Python ints."""
    total = 0
    for count in counts:
        total += count
    return total
