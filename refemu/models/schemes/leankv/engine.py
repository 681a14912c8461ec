"""Several requests of different lengths in one pool, step by step, as a serving engine runs them [leankv §5.3, §6.1].

A step first frees the pages of requests that ended. If waiting requests fit, it is then one prompt step for as many as
fit, in the order of arrival; otherwise one generation step for all running requests, in the order of admission
(D-leankv-52). If pages run out, the newest request yields and starts again later (D-leankv-68), with the same tokens:
its steps are computed again, or its pages come back from the host. Requests share no page, so the tokens of one do not
depend on the others.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.runtime import decoder, logits, require_tokens
from refemu.models.schemes.leankv.cache import Held, Pools
from refemu.models.schemes.leankv.layers import LeanKv, require_within_window
from refemu.models.schemes.leankv.pool import Image, Prompt
from refemu.models.schemes.leankv.scheduler import Preemption
from refemu.models.schemes.leankv.server import Server
from refemu.models.taps import Tap, Watch
from refemu.units.leankv.page_manager import Memory, PageManager


@dataclass
class Request:
    """One sequence."""

    name: int
    prompt: np.ndarray  #: token ids
    following: deque[int]  #: given tokens to continue with
    count: int  #: tokens to choose after those
    chosen: list[int] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)  #: logits after the prompt and every later token
    next: int = -1  #: token of the next step
    fed: list[int] = field(default_factory=list)  #: tokens of all steps so far, the next one included
    replay: deque[int] = field(default_factory=deque)  #: tokens of steps that are computed again
    pages: list[Image] | None = None  #: pages on the host, of each pool
    aborted: bool = False  #: whether pages did not suffice although nothing else ran

    @property
    def ended(self) -> bool:
        """Whether the request has all its tokens."""
        return not self.replay and not self.following and len(self.chosen) >= self.count

    @property
    def logits(self) -> np.ndarray:
        """float32 (steps, vocabulary)."""
        return np.stack(self.rows)

    def take(self, row: np.ndarray) -> None:
        """Add the logits of the last token; the next token is the given one, or the likeliest (lowest id of equals)."""
        if self.replay:
            self.next = self.replay.popleft()
            return
        self.rows.append(row)
        if self.following:
            self.next = self.following.popleft()
        else:
            self.next = int(np.argmax(row))
            self.chosen.append(self.next)
        self.fed.append(self.next)


@dataclass(frozen=True)
class Step:
    """Report of one step."""

    kind: str  #: "prompt", "generation", or "finish" if nothing was computed
    names: tuple[int, ...]  #: computed requests
    finished: tuple[int, ...]  #: ended requests whose pages were freed before
    memory: Memory  #: memory after the step
    preempted: tuple[int, ...] = ()  #: requests that yielded before the step
    aborted: tuple[int, ...] = ()  #: requests that can never continue


class Engine(Server):
    """Requests under one scheme.

    `prepared` is the result of `models.prepare` for a LeanKV scheme, or for a mix with its attention.
    """

    def __init__(
        self, prepared: Any, slots: int | None = None, taps: Tap | None = None, preemption: Preemption = "recompute"
    ) -> None:
        """slots: concurrent requests; None: as in the configuration. preemption: see `Scheduler`."""
        paged = getattr(prepared, "attention_part", prepared)  # in a mix, the part with the pages
        if not isinstance(paged, LeanKv):
            raise Refused(f"engine: the scheme must be LeanKV's, got {prepared!r}")
        self.prepared: Any = prepared
        self.paged: LeanKv = paged
        self.slots: int = paged.lean.slots if slots is None else slots
        super().__init__(self.slots, preemption)
        self.pools: Pools = paged.pools(self.slots)
        self.requests: dict[int, Request] = {}
        self._watch = Watch(taps)

    @property
    def waiting(self) -> deque[int]:
        """Requests that have not started, or yielded."""
        return self.scheduler.waiting

    @property
    def running(self) -> list[int]:
        """Requests in the pool."""
        return self.scheduler.running

    def __repr__(self) -> str:
        return f"Engine({self.prepared!r}, {len(self.waiting)} waiting, {len(self.running)} running)"

    @property
    def counters(self) -> dict[str, int]:
        """Counters of all requests by name."""
        return dict(sorted(self._watch.counters.items()))

    def submit(self, ids: Sequence[int] | np.ndarray, count: int = 0, following: Sequence[int] = ()) -> int:
        """Add a request; returns its name.

        ids: the prompt. following: given tokens after it; count: tokens to choose after those. The last token needs no
        step. Raises Refused for an empty prompt, no tokens to add, and a request that can never fit.
        """
        tokens, later = require_tokens(ids, self.prepared), [int(token) for token in following]
        if later:
            require_tokens(later, self.prepared, len(tokens) - 1)
        if count < 0 or len(later) + count < 1:
            raise Refused(f"engine: a request must add a token, got count {count} and {len(later)} given")
        self._require_room(len(tokens), len(tokens) + len(later) + count - 1)
        name = len(self.requests)
        self.requests[name] = Request(name, tokens, deque(later), count)
        self.scheduler.arrive(name)
        return name

    def _require_room(self, prompt: int, length: int) -> None:
        """Raise Refused for a request that can never be served."""
        shape = self.pools.pools[0].manager.shape
        counted = length if self.scheduler.preemption == "none" else prompt
        most, needed = min(shape.max_len, self.prepared.model.context), self.pools.needed(self.pools.pools[0], counted)
        require_within_window(self.prepared.model, length)
        if length > most:
            raise Refused(f"engine: a request must have at most {most} tokens, got {length}")
        if needed > shape.pages:
            raise Refused(f"engine: the pool must have {needed} pages for {counted} tokens, got {shape.pages}")

    def step(self) -> Step | None:
        """The next step; None when all requests have ended and their pages are free. If it raises, ended requests are
        finished and others may have yielded, and nothing else changes.
        """
        events, rows = self._advance()
        for name, row in (rows or {}).items():
            self.requests[name].take(row)
        if events.kind == "finish" and not (events.finished or events.preempted or events.aborted):
            return None
        changed = tuple(events.preempted), tuple(events.aborted)
        return Step(events.kind, events.names, events.finished, self.pools.memory(), *changed)

    def run(self) -> dict[int, list[int]]:
        """Step until all requests have ended; returns their chosen tokens by name."""
        while self.step() is not None:
            pass
        return {name: request.chosen for name, request in self.requests.items()}

    @property
    def managers(self) -> list[PageManager]:
        """Memory manager of each worker."""
        return [pool.manager for pool in self.pools.pools]

    def _ended(self, name: int) -> bool:
        return self.requests[name].ended

    def _needed(self, name: int) -> list[int]:
        request = self.requests[name]
        tokens = len(request.prompt) if request.pages is None else request.pages[0].seen
        return [self.pools.needed(pool, tokens) for pool in self.pools.pools]

    def _most(self, name: int) -> list[int]:
        request = self.requests[name]
        left = len(request.following) + request.count - len(request.chosen)
        length = len(request.prompt) + len(request.fed) + left - 1  # the last token is not stored
        return [self.pools.needed(pool, length) for pool in self.pools.pools]

    def _finish(self, names: Sequence[int]) -> None:
        self.pools.finish(names)

    def _yield(self, name: int) -> None:
        """Save the pages of a request, or the tokens of its steps."""
        request = self.requests[name]
        if self.scheduler.preemption == "swap":
            request.pages = [pool.save(name) for pool in self.pools.pools]
        else:
            request.replay = deque(request.fed)
        self.pools.finish([name])

    def _aborted(self, name: int) -> None:
        self.requests[name].aborted = True

    def _prompts(self, names: Sequence[int]) -> dict[int, np.ndarray]:
        """Run prompts one by one and compress them together; bring pages back from the host."""
        rows: dict[int, np.ndarray] = {}
        with self._undone():
            for name in names:
                saved = self.requests[name].pages
                if saved is not None:
                    self.pools.restore(name, saved)
            new = [name for name in names if self.requests[name].pages is None]
            if new:
                rows = self._computed(new)
        for name in names:
            self.requests[name].pages = None
        return rows

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Undo changes of the pools and the counters if the block raises."""
        past, counters = self.pools.mark(), dict(self._watch.counters)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                yield
        except BaseException:
            self.pools.rewind(past)
            self._watch.counters = counters
            raise

    def _computed(self, names: Sequence[int]) -> dict[int, np.ndarray]:
        """Logits after prompts."""
        rows, prompts = {}, {}
        self.pools.admit({name: len(self.requests[name].prompt) for name in names})
        for name in names:
            rows[name], prompts[name] = self._prompt(name)
        self.paged.compress(self.pools, prompts, self._watch)
        return rows

    def _prompt(self, name: int) -> tuple[np.ndarray, Prompt]:
        """The logits after a prompt, and the arrays of its layers for the compressor."""
        held = Held(self.prepared.model.blocks, self.pools, (name,), engine=True)
        self._watch.first_token = 0
        x = decoder(self.prepared, self.requests[name].prompt, held, self._watch)
        return logits(self.prepared, x[-1:], self._watch)[0], held.current.prompt

    def _generate(self, names: Sequence[int]) -> dict[int, np.ndarray]:
        with self._undone():
            return self._tokens(names)

    def _tokens(self, names: Sequence[int]) -> dict[int, np.ndarray]:
        """Logits after one token of every request."""
        manager = self.pools.pools[0].manager
        positions = [manager.requests.table[name].seen for name in names]
        held = Held(self.prepared.model.blocks, self.pools, names, engine=True)
        for cache in held:
            cache.length = max(positions)
        ids = np.array([self.requests[name].next for name in names], np.int64)
        self._watch.first_token = max(positions)
        x = decoder(_Rows(self.prepared, positions), ids, held, self._watch)
        return dict(zip(names, logits(self.prepared, x, self._watch), strict=True))


class _Rows:
    """A prepared scheme whose rows are tokens of different sequences."""

    def __init__(self, prepared: Any, positions: Sequence[int]) -> None:
        self._prepared, self._positions = prepared, positions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prepared, name)

    def position(self, start: int, count: int) -> np.ndarray:
        """Embeddings of every row at the position of its own sequence."""
        return np.concatenate([self._prepared.position(position, 1) for position in self._positions])

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotation of every row at the position of its own sequence."""
        rows = [self._prepared.rotate(x[row : row + 1], position) for row, position in enumerate(self._positions)]
        return np.concatenate(rows)
