"""Pages of requests of which only lengths are known: managers of all workers, and tokens by chance [leankv §5.3]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refemu.arith import integers, prng
from refemu.units.leankv.free_page_list import OutOfPages
from refemu.units.leankv.page_manager import Shape

if TYPE_CHECKING:
    from refemu.units.leankv.page_manager.compiled import PageManager
    from refemu.units.leankv.page_manager.compiled.growth import Steps


@dataclass(frozen=True)
class Layout:
    """Bytes of pages and tokens of one worker's heads."""

    page: int  #: bytes of a page
    tokens: tuple[int, int]  #: tokens of a high and of a low page
    token: tuple[int, int]  #: bytes of a stored token of a head, high and low
    window: int  #: newest tokens, which stay high


class Usage(NamedTuple):
    """What requests hold in one worker: high, low."""

    tokens: tuple[int, int]
    pages: tuple[int, int]
    token: tuple[int, int]  #: bytes of a token of a head
    page: int  #: bytes of a page
    heads: int  #: heads of all layers

    @property
    def bytes(self) -> int:
        """Bytes of the tokens, with metadata, scores and positions."""
        return self.tokens[0] * self.token[0] + self.tokens[1] * self.token[1]


class Store:
    """Pages of one worker."""

    manager: "PageManager"
    layout: Layout
    limits: np.ndarray

    def __init__(self, manager: "PageManager", layout: Layout, limits: np.ndarray, seed: int, worker: int) -> None:
        """limits: of `draws`, (layers * heads, 2)."""
        self.manager, self.layout, self.limits = manager, layout, limits
        self.held: np.ndarray = np.zeros((manager.shape.slots, 4), np.int64)  #: by slot: tokens and pages, high, low
        self._seed, self._worker = seed, worker
        self._yielded: dict[int, tuple[int, np.ndarray]] = {}  # tokens of requests that yielded: seen; high and low
        self._steps: Steps | None  # of the requests that grew last
        self._usage: Usage | None  # of all requests
        self._sums: np.ndarray  # of `held`
        self._count: int  # requests with pages
        self._change()
        self._seeds: np.ndarray = np.zeros((manager.shape.slots, len(limits)), np.uint64)  # by slot

    @property
    def shape(self) -> Shape:
        """Parameters of the manager."""
        return self.manager.shape

    def pages_for(self, tokens: int) -> int:
        """Pages of a prompt at the high precision, and one more a head where there is a low one (D-leankv-35)."""
        per_head = -(-tokens // self.shape.high_tokens) + (self.shape.low_tokens is not None)
        return self.shape.layers * self.shape.heads * per_head

    def admit(self, prompts: Mapping[int, int]) -> None:
        """Allocate pages for prompts, and free those that compressed tokens do not need."""
        names, lengths = list(prompts), np.array(list(prompts.values()), np.int64)
        self.manager.prompt_allocate(prompts)
        slots, retained = self.slots(names), np.empty((2, len(names), len(self.limits)), np.int64)
        self.seed(names)
        before = np.zeros(len(names), np.int64)
        for i, name in enumerate(names):
            if name in self._yielded:
                before[i], retained[:, i] = self._yielded.pop(name)
        from refemu.models.schemes.leankv.compiled import draws as draws_compiled

        window = np.int64(self.layout.window)
        draws_compiled.retained(self._seeds[slots], self.limits, lengths, window, before, *retained)
        lanes = (len(names), self.shape.layers, self.shape.heads)
        self.manager.prompt_release(names, *retained.reshape(2, *lanes))
        pages = np.moveaxis(self.manager.used(names).reshape(len(names), -1, 2), 2, 0)
        self.held[slots] = np.concatenate([integers.total(part, axis=2) for part in (retained, pages)]).T
        self._change()

    def seed(self, names: Sequence[int]) -> None:
        """Set the seeds of the heads of requests, in their slots."""
        for name, slot in zip(names, self.slots(names).tolist(), strict=True):
            stream = prng.stream(f"serving/tokens/{self._worker}/{name}", self._seed)
            self._seeds[slot] = prng.words(stream, 0, len(self.limits))

    def slots(self, names: Sequence[int]) -> np.ndarray:
        """Slots of requests."""
        table = self.manager.requests.table
        return np.array([table[name].slot for name in names], np.int64)

    def plan(self, names: Sequence[int]) -> None:
        """Prepare the next step; raises OutOfPages if it lacks pages, and then changes nothing."""
        manager = self.manager
        if self._steps is None or self._steps.names != names:
            self._steps = manager.growing(names)
        needed, due = manager.needed(self._steps)
        if due is not None:
            self._draw(self._steps, due)
            needed = manager.needed(self._steps)[0]
        if needed > manager.free:
            raise OutOfPages(f"serving: pages must be at most {manager.free}, the free ones, got {needed}")

    def _draw(self, steps: "Steps", due: np.ndarray) -> None:
        """Draw the classes of the tokens that leave the windows of requests in their next steps."""
        from refemu.models.schemes.leankv.compiled import draws as draws_compiled

        classes = np.empty((len(due), 2, len(self.limits)), np.uint64)
        seen, window = self.manager.seen(steps, due), np.int64(self.layout.window)
        draws_compiled.ahead(self._seeds, self.limits, due, seen, window, classes)
        self.manager.foresee(due, classes)

    def step(self, names: Sequence[int]) -> None:
        """Grow by one token, after `plan`."""
        assert self._steps is not None and self._steps.names == names
        self._sums += self.manager.grow(self._steps, self.held)
        self._usage = None

    def finish(self, names: Sequence[int]) -> None:
        """Free all pages of requests."""
        self.held[self.slots(names)] = 0
        self.manager.finish(names)
        self._change()

    def preempt(self, name: int) -> None:
        """Free all pages of a request that will start again, with at least as many tokens."""
        seen, tokens = self.manager.requests.table[name].seen, self.manager.lengths([name])
        self._yielded[name] = seen, tokens.reshape(-1, 2).T
        self.finish([name])

    def resume(self, held: np.ndarray) -> None:
        """Set what the requests of the manager hold, by slot."""
        self.held = held
        self.seed(list(self.manager.requests.table))
        self._change()

    def _change(self) -> None:
        """Other requests have pages than before."""
        self._steps, self._usage = None, None
        self._sums, self._count = integers.total(self.held, axis=0), len(self.manager.requests.table)

    def usage(self, names: Sequence[int] | None) -> Usage:
        """What requests hold; None: all."""
        if names is None or len(names) == self._count:
            self._usage = self._usage or self._used(self._sums)
            return self._usage
        return self._used(integers.total(self.held[self.slots(names)], axis=0))

    def _used(self, sums: np.ndarray) -> Usage:
        high, low, high_pages, low_pages = sums.tolist()
        return Usage((high, low), (high_pages, low_pages), self.layout.token, self.layout.page, len(self.limits))
