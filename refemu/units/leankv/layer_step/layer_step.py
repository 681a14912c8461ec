"""Generation steps of all KV heads of a layer and of all requests, which share a pool of pages.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2]. Composed of generation_compressor, page_manager (with its list, table
and prefix sum), kv_compressor (with its quantizer) and paged_attention; this module has the pages; every wire between
the units is a call of `Head`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from itertools import product
from operator import add
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith.checks import Refused, reject
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Lanes, Ports, Sequential, Unit, constant, decides
from refemu.units.leankv.generation_compressor import Policy, ScoreRule
from refemu.units.leankv.kv_compressor import APPEND_HIGH, APPEND_LOW, REPLACE
from refemu.units.leankv.layer_step.heads import Head, Run, operation
from refemu.units.leankv.layer_step.registers import (
    ATTENDED,
    COUNTERS,
    DECIDED,
    MANAGED,
    NONE,
    OPERATIONS,
    WRITTEN,
    ports_of,
)
from refemu.units.leankv.page_manager import PageManager, Shape
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import EPSILON, Arithmetic, Paging
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

SECTIONS = ("high", "low")
TABLE = ("pages", "max_len", "reserve_low", "table_extra", "table_tokens", "lazy_pages", "scrub")  #: manager options


class LayerStep(Sequential, Arithmetic, Paging):
    """All KV heads of a layer for some requests: one memory manager, one pool, and in every head the units of `Head`.

    A generation step is `decide`, `allocate`, then head by head `requantize` if a token moves, `write`, and the events
    of attention up to `score` (D-leankv-62). An entry is a head of a request; entry e is head e % H of request e // H.
    With several requests, an event is for those that `members` names; one call of the manager serves them all
    (D-leankv-75). [leankv §4, §5.3, §6.1, §6.2]
    """

    name = "layer_step"
    events: ClassVar[tuple[str, ...]] = (
        *("admit", "load", "finish", "decide", "allocate", "requantize", "write"),
        *("key_page", "softmax", "value_page", "tree", "combine", "score"),
    )
    does: ClassVar[dict[str, str]] = {  # attention changes registers of its unit alone, before `score`
        "key_page": "compute the logits of a page",
        "softmax": "compute the probabilities of the tokens",
        "value_page": "add the values of a page",
        "tree": "join the accumulators",
        "combine": "join the partitions, if there are several",
    }
    counters: ClassVar[dict[str, str]] = COUNTERS
    registers: ClassVar[dict[str, str]] = {
        "head": "entry that the last event of a generation step worked on",
        "pool": "contents of all pages, as bytes",
        "manager": "State of the memory manager, as of unit page_manager",
        "heads": "States of the units of every entry: generation_compressor, kv_compressor, paged_attention",
    }
    kv_heads: Annotated[int, 1, 1 << 10] = 3  #: H, KV heads, 1 to 1024
    heads: int = 3  #: G, query heads of a KV head, 1 to 1024
    page_bytes: int | None = 384  #: bytes of a page
    pages: int = 24  #: pages of the pool
    max_len: int = 12  #: most tokens of a prompt, and capacity of a table entry
    policy: Policy = "algorithm1"  #: rule of the decisions, as for `GenerationCompressor`; so are the following
    score_rule: ScoreRule = "share"  #: quantity that Algorithm 1 compares
    keep_percent: int = 100  #: budget of `static`
    score_queries: int | None = None  #: number of the prompt's last queries that a score was summed over; None: all
    include_self: bool = False  #: whether a token's attention to itself counts
    epoch: bool = False  #: whether positions are stored as in the published code
    reserve_low: int = 0  #: extra pages of a prompt, as for `Shape`; so are the following
    table_extra: int = 1  #: cells in addition to max_len / table_tokens
    table_tokens: int | None = None  #: by default the tokens of a high page
    lazy_pages: bool = True  #: a page when a token needs it; else one for every full section
    scrub: bool = False  #: whether -1 is written into cells that are no longer used
    requests: Annotated[int, 1, 1 << 6] = 1  #: R, requests at a time, 1 to 64

    @constant
    def shape(self) -> Shape:
        """Parameters of the memory manager."""
        high, low = self.layouts.sections
        return Shape(
            layers=1,
            heads=self.kv_heads,
            high_tokens=high.tokens,
            low_tokens=low.tokens if self.layouts.low else None,
            slots=self.requests,
            **{name: getattr(self, name) for name in TABLE},
        )

    @constant
    def slots(self) -> int:
        """Capacity of a table entry, in tokens."""
        return self.shape.length * max(page.tokens for page in self.layouts.sections)

    @constant
    def ports(self) -> Ports:
        return ports_of(self.layouts, self.shape, self.heads, self.policy)

    @constant
    def manager(self) -> PageManager:
        """Memory manager, in which a request has the name and slot of its number; a prompt replaces it by a copy."""
        return PageManager(**asdict(self.shape))

    @constant
    def units(self) -> list[Head]:
        """Units of every entry."""
        parameters = {name: getattr(self, name) for name in self._names}
        return [Head(parameters, self.shape.length, self.slots) for _ in range(self.shape.entries)]

    @constant
    def pool(self) -> np.ndarray:
        """Images of all pages."""
        return self.layouts.high.empty(self.shape.pages)

    @constant
    def _cleared(self) -> dict[str, Any]:
        """Outputs before the first event of an operation."""
        ports = self.ports.outputs
        return {port.name: port.filled(-1 if port.name == "taken" else 0) for port in ports}

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Registers of the units at reset, and the pool they share."""
        taken, pool = self._cleared["taken"], self.pool.tobytes()
        return {"window": 1, "taken": taken, "pool": pool, **self._registers()}

    def _registers(self) -> dict[str, Any]:
        """Registers of the units in the form of a State."""
        entries, requests = range(self.shape.entries), self.manager.requests.table
        seen = tuple(requests[name].seen if name in requests else 0 for name in range(self.requests))
        table = self.manager.table
        return {
            "manager": self.manager.state,
            "heads": tuple(unit.state for unit in self.units),
            "seen": seen if self.requests > 1 else seen[0],
            "stored": tuple(count for entry in entries for count in table.tokens(entry)),
            "cells": tuple(page for entry in entries for page in table.row(entry)),
            "list_start": self.manager.list.start,
            "free": self.manager.free,
        }

    def restore(self, state: DeclaredState) -> None:
        super().restore(state)
        self._resume()

    def _resume(self) -> None:
        """Set the registers of the units from the State."""
        state = self.state
        self.manager.restore(state.manager)
        for unit, registers in zip(self.units, state.heads, strict=True):
            unit.restore(registers)
        self.pool = np.frombuffer(state.pool, np.uint16).reshape(self.shape.pages, -1).copy()
        self._in_step = state

    @property
    def busy(self) -> bool:
        """Whether events of a generation step remain."""
        state = self.state
        done = ("reset", "admit", "load", "finish")
        return state.event not in done and (state.event != "score" or state.head != self._entries[-1])

    def _open(self, *inputs: Any) -> DeclaredState:
        before = self.state
        self.state = self.latched(*inputs, **self._cleared, head=0)
        event = OPERATIONS[self.state.op]
        try:
            return self._commit(event, (), getattr(self, event)())
        except Refused:
            self.state = before
            self._resume()
            raise

    def _continue(self) -> DeclaredState:
        if self.state is not self._in_step:
            self._resume()
        event, head = self.state.event, self.state.head
        if event in ("decide", "allocate", "requantize", "score"):
            return super()._continue()
        attention = self._attend(head) if event == "write" else self.units[head].attention.step()
        return self._commit(attention.event, (), self.score() if attention.event == "score" else {})

    def follows(self) -> str:
        event = self.state.event
        if event == "decide":
            return "allocate"
        moves = event != "requantize" and operation(self.units[self._due].compressor.state) == REPLACE
        return "requantize" if moves else "write"

    @property
    def _due(self) -> int:
        """The entry whose token is moved or written next."""
        entries, event, head = self._entries, self.state.event, self.state.head
        if event == "requantize":
            return head
        return entries[entries.index(head) + 1] if event == "score" else entries[0]

    @decides("D-leankv-75")
    def _members(self) -> list[int]:
        """Requests of an event, in the order of the calls of the manager."""
        if self.requests == 1:
            return [0]
        return [name for name, flag in enumerate(self.state.members) if flag]

    def _require_members(self) -> list[int]:
        """Requests of an event; raises if there are none."""
        names = self._members()
        if not names:
            raise Refused(f"{self.name}: members must name a request, got none")
        return names

    @property
    def _entries(self) -> list[int]:
        """Entries of the requests of an event: request by request, head by head."""
        return [name * self.kv_heads + head for name in self._members() for head in range(self.kv_heads)]

    def _whose(self, entry: int) -> str:
        """The head of an entry, and its request if there are several, for messages."""
        request, head = divmod(entry, self.kv_heads)
        return f"{self.name}: " + f"request {request}: " * (self.requests > 1) + f"head {head}"

    def _commit(self, event: str, inputs: Sequence[Any], changes: Changes) -> DeclaredState:
        """The State after an event: registers and counters of the units, and other changes."""
        before, registers = self.state, self._registers()
        counted = {
            name: getattr(registers["manager"], counter) - getattr(before.manager, counter)
            for name, counter in MANAGED.items()
        }
        pairs = list(zip(before.heads, registers["heads"], strict=True))
        for names, unit in ((DECIDED, "compressor"), (WRITTEN, "writer"), (ATTENDED, "attention")):
            states = [(getattr(old, unit), getattr(new, unit)) for old, new in pairs]
            for name, counter in names.items():
                counted[name] = reduce(add, (getattr(new, counter) - getattr(old, counter) for old, new in states))
        pool = self.pool.tobytes()
        self._in_step = super()._commit(event, inputs, {**registers, **counted, "pool": pool, **changes})
        return self._in_step

    def _runs(self, head: int) -> tuple[Run, Run]:
        """Ids of the pages of an entry."""
        return self.manager.table.run(head, HIGH), self.manager.table.run(head, LOW)

    @decides("D-leankv-25")
    def _of(self, port: str, head: int) -> Any:
        """Lanes of a port that belong to an entry."""
        values = getattr(self.state, port)
        size = len(values) // self.shape.entries
        return values[head * size : (head + 1) * size]

    def _put(self, values: Lanes, head: int, words: Sequence[int]) -> Lanes:
        """The lanes of a port with those of an entry set, a shorter record zero-padded."""
        changed = list(values)
        size = len(changed) // self.shape.entries
        changed[head * size : (head + 1) * size] = [*words, *(0,) * (size - len(words))]
        return tuple(changed)

    def _tokens(self, head: int) -> tuple[int, int]:
        """Tokens that an entry stores, high and low."""
        return self.manager.table.tokens(head)

    @decides("D-leankv-9")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject vectors that are not finite."""
        for name, words in zip(("key", "value", "q"), inputs[7:10], strict=True):
            reject(words & 0x7C00 == 0x7C00, f"{self.name}: {name} must be finite fp16", words, ", got {:#06x}")

    # Begin and end of a request.

    @decides("D-leankv-63")
    def admit(self) -> Changes:
        """Allocate pages for prompts and recycle those that their retained tokens do not need."""
        manager, state, names = self.manager.fork(), self.state, self._require_members()
        slots = manager.requests.free_slots
        manager.requests.free_slots = type(slots)([*names, *(slot for slot in slots if slot not in names)])
        prompts = state.prompt if self.requests > 1 else (state.prompt,)
        self._admit(manager, {name: prompts[name] for name in names})
        self.manager = manager
        return self._unloaded()

    @decides("D-leankv-75")
    def _admit(self, manager: PageManager, prompts: dict[int, int]) -> None:
        """Make the two calls for prompts: all get their pages, then all free those that they do not need."""
        manager.prompt_allocate(prompts)
        kept = (
            np.array(words, np.int64).reshape(self.requests, 1, -1)[list(prompts)]
            for words in (self.state.keep_high, self.state.keep_low)
        )
        manager.prompt_release(list(prompts), *kept)

    def _unloaded(self) -> Changes:
        """No token of the requests of the event is in its pages."""
        loaded = list(self.state.loaded)
        for entry in self._entries:
            loaded[2 * entry : 2 * entry + 2] = (0, 0)
        return {"loaded": tuple(loaded)}

    @decides("D-leankv-63")
    def load(self) -> Changes:
        """Write a retained token of each entry that loads one into the next slot of its section."""
        loaded, written, words = list(self.state.loaded), self.state.written, 0
        for head, code in enumerate(self.state.section):
            if code == NONE:
                continue
            section = code - 1
            self._require_load(head, section)
            state = self.units[head].write(
                self.pool,
                self._runs(head),
                self._next_slots(head),
                APPEND_LOW if section == LOW else APPEND_HIGH,
                **self._token(head, self.state.score[head], self.state.position[head]),
            )
            record = state.written[: self.layouts.sections[section].record_words]
            loaded[2 * head + section] += 1
            written = self._put(written, head, record)
            words += len(record)
        return {"loaded": tuple(loaded), "written": written, "record_words": words}

    def _require_load(self, head: int, section: int) -> None:
        """Reject a token without a slot, and positions that no token of the prompt can have."""
        request = self.manager.requests.table.get(head // self.kv_heads)
        kept, loaded = self._tokens(head)[section], self.state.loaded[2 * head + section]
        what = self._whose(head)
        if loaded == kept:
            raise Refused(f"{what}: all {kept} retained {SECTIONS[section]} tokens are loaded already, got another")
        assert request is not None, "no token is retained without a request"
        position = self.state.position[head]
        if position >= request.prompt:
            raise Refused(f"{what}: position must be in [0, {request.prompt}), the prompt, got {position}")
        held = self.units[head].scores(self.pool, self._runs(head), self._loaded(head))[1]
        if position in held and not self.epoch:
            raise Refused(f"{what}: position {position} is loaded already")

    @decides("D-leankv-63")
    def _next_slots(self, head: int) -> tuple[int, int]:
        """High and low slot of the next token of a prompt: in ascending order."""
        return self._loaded(head)

    def _loaded(self, head: int) -> tuple[int, int]:
        return self.state.loaded[2 * head], self.state.loaded[2 * head + 1]

    def _token(self, head: int, score: int, position: int, victim: int = 0, low_slot: int = 0) -> dict[str, Any]:
        """Inputs of kv_compressor besides the operation."""
        vectors = {"key": self._of("key", head), "value": self._of("value", head)}
        return {"victim": victim, "low_slot": low_slot, **vectors, "score": score, "position": position}

    def finish(self) -> Changes:
        """Recycle all pages of requests."""
        self.manager.finish(self._require_members())
        return self._unloaded()

    # A generation step (D-leankv-62).

    def decide(self) -> Changes:
        """Choose in every entry where the new token goes and which one leaves, from the scores before the step."""
        self._require_members()
        decided, tokens = dict[int, Any](), 0
        for entry in self._entries:
            n, prompt = self._require_step(entry)
            decided[entry] = self._decided(entry, n, prompt)
            tokens += reduce(add, self._tokens(entry))
        self._grown(self.manager.fork(), list(decided.values()))  # raises for a step that lacks pages
        columns = {name: list(self._cleared[name]) for name in ("choice", "victim", "low_slot")}
        for (entry, each), (name, column) in product(decided.items(), columns.items()):
            column[entry] = getattr(each, name)
        return {**{name: tuple(column) for name, column in columns.items()}, "plan_words": 4 * tokens}

    def _require_step(self, entry: int) -> tuple[int, int]:
        """Tokens so far and of the prompt; raises without a request, or if tokens of its prompt are not loaded."""
        state, request = self.state, self.manager.requests.table.get(entry // self.kv_heads)
        if request is None:
            raise Refused(f"{self.name}: a step needs a request, got none; admit a prompt first")
        for section, what in enumerate(SECTIONS):
            kept, loaded = state.stored[2 * entry + section], state.loaded[2 * entry + section]
            if request.seen == request.prompt and kept != loaded:
                raise Refused(f"{self._whose(entry)}: {kept} {what} tokens must be loaded, got {loaded}")
        return request.seen, request.prompt

    @decides("D-leankv-28", "D-leankv-62")
    def _decided(self, head: int, n: int, prompt: int) -> Any:
        """The decision of one entry."""
        others = n, prompt, self.state.window, self.state.thresholds
        return self.units[head].decide(self.pool, self._runs(head), self._tokens(head), *others)

    def _grown(self, manager: PageManager, decided: Any) -> Any:
        """Allocate pages for the sections that grow, of all entries by one call."""
        deltas = (
            np.array([getattr(each, name) for each in decided], np.int64).reshape(-1, 1, self.kv_heads)
            for name in ("delta_high", "delta_low")
        )
        return manager.step_allocate(self._members(), *deltas)

    @decides("D-leankv-62")
    def allocate(self) -> Changes:
        """Allocate a page for sections that grow beyond their last one."""
        moved = self._grown(self.manager, [self.units[entry].compressor.state for entry in self._entries])
        ids, taken = iter(moved.ids), list(self.state.taken)
        for place, count in enumerate(moved.counts):
            taken[2 * self._entries[place // 2] + place % 2] = next(ids) if count else -1
        return {"taken": tuple(taken)}

    def requantize(self) -> Changes:
        """Move a token to the low section."""
        head, (high, low) = self._due, self.layouts.sections
        moved = self._put(self.state.moved, head, self._begin_write(head).moved)
        return {"head": head, "moved": moved, "move_words": high.record_words, "record_words": low.record_words}

    def write(self) -> Changes:
        """Write the new token, after a move into the slot of the moved token."""
        head, words = self._due, self.layouts.high.record_words
        moved = self.state.event == "requantize"
        state = self.units[head].write_on(self.pool, self._runs(head)) if moved else self._begin_write(head)
        return {
            "head": head,
            "written": self._put(self.state.written, head, state.written[:words]),
            "record_words": words,
        }

    def _begin_write(self, head: int) -> Any:
        """Run the first event of kv_compressor: the move, or else the write."""
        unit = self.units[head]
        decided, stored = unit.compressor.state, self._tokens(head)
        before = stored[0] - decided.delta_high, stored[1] - decided.delta_low
        op = operation(decided)
        place = {"victim": decided.victim, "low_slot": decided.low_slot} if op == REPLACE else {}
        if op not in (REPLACE, APPEND_HIGH):
            place = {"victim": decided.victim}
        return unit.write(self.pool, self._runs(head), before, op, **self._token(head, 0, decided.n, **place))

    @decides("D-leankv-62")
    def _attend(self, head: int) -> Any:
        """Run the first event of attention over the pages, including the new token."""
        unit = self.units[head]
        q, n = self._of("q", head), unit.compressor.state.n
        return unit.attend(self.pool, self._runs(head), self._tokens(head), q, n)

    def score(self) -> Changes:
        """Add the attention of the step to the scores of the stored tokens."""
        state, head = self.state, self.state.head
        attention = self.units[head].attention.state
        self._score(head, attention)
        return {
            "out": self._put(state.out, head, attention.out),
            "p": self._put(state.p, head, attention.p),
            "scores": self._put(state.scores, head, self._scores_of(head)),
        }

    @decides("D-leankv-19", "D-leankv-62")
    def _score(self, head: int, state: Any) -> None:
        """Write the scores of the stored tokens after the step to their pages."""
        self.units[head].add_scores(self.pool, self._runs(head), self._tokens(head), state)

    def _scores_of(self, head: int) -> list[int]:
        """Scores in the pages, high slots, then low ones."""
        return self.units[head].scores(self.pool, self._runs(head), self._tokens(head))[0]


TINY: dict[str, Any] = {
    "head_size": 16,
    "high": "K8V4",
    "low": "K4V2",
    "page_bytes": 112,
    "preset": "paper",
    "k_vec": 1,
    "k_group": 4,
    "v_vec": 2,
    "v_group": 2,
    "align": (4, 4),
}  #: small pages, for small heads
HEAD: dict[str, Any] = {
    "kv_heads": 1,
    "head_size": 64,
    "heads": 3,
    "high": "K8V4",
    "page_bytes": 384,
    "pages": 8,
    "max_len": 12,
}  #: a single head

UNIT: AnyUnit = Unit(
    unit_class=LayerStep,
    paper="leankv §4 Algorithm 1, §5.3, §6.1, §6.2",
    meaning="generation steps of all KV heads of a layer, of one or of several requests",
    configs={
        "one": Config(kv_heads=3, heads=1, pages=18, max_len=10, **TINY),
        "three": Config(
            kv_heads=2,
            heads=3,
            head_size=64,
            high="K8V4",
            low="K4V2",
            page_bytes=384,
            pages=12,
            max_len=8,
            preset="paper",
        ),
        "eight": Config(kv_heads=2, heads=8, pages=8, max_len=8, **TINY),
        "head": Config(**HEAD, low="K4V2", preset="paper"),
        "head_one_precision": Config(**HEAD, low=None, preset="paper"),
        "batch": Config(
            kv_heads=2,
            heads=1,
            pages=36,
            max_len=10,
            requests=3,
            **TINY,
            warps=2,
            sum_threads=2,
            key_threads=2,
            value_rows=2,
            value_slots=1,
            join="sequential",
        ),
        "head_diffkv": Config(
            **HEAD,
            low="K4V2",
            preset="diffkv",
            policy="diffkv",
            score_queries=64,
            include_self=True,
            softmax_div="recip_mul",
            softmax_eps=EPSILON,
            reserve_low=1,
            table_extra=2,
            lazy_pages=False,
        ),
    },
)
State: type[DeclaredState] = LayerStep.State
run: RunFunction[Result] = UNIT.run
