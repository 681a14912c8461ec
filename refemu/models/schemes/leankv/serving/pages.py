"""Pages of requests of which only lengths are known: managers of all workers, and tokens by chance [leankv §5.3]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refemu.arith import integers, prng
from refemu.units.leankv.free_page_list import OutOfPages
from refemu.units.leankv.page_manager import PageManager, Shape


@dataclass(frozen=True)
class Layout:
    """Bytes of pages and tokens of one worker's heads."""

    page: int  #: bytes of a page
    tokens: tuple[int, int]  #: tokens of a high and of a low page
    token: tuple[int, int]  #: bytes of a stored token of a head, high and low
    window: int  #: newest tokens, which stay high


@dataclass
class Held:
    """Stored tokens and pages of one request in one worker: high, low."""

    tokens: np.ndarray
    pages: np.ndarray


@dataclass(frozen=True)
class Usage:
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

    manager: PageManager
    layout: Layout
    limits: np.ndarray

    def __init__(self, manager: PageManager, layout: Layout, limits: np.ndarray, seed: int, worker: int) -> None:
        """limits: of `kernels.draws`, (layers * heads, 2)."""
        self.manager, self.layout, self.limits = manager, layout, limits
        self.held: dict[int, Held] = {}
        self._seed, self._worker = seed, worker
        self._seeds: dict[int, np.ndarray] = {}

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
        high, low = np.empty((2, len(names), len(self.limits)), np.int64)
        from refemu.units.leankv.kernels import draws

        draws.kept(self._words(names), self.limits, lengths, np.int64(self.layout.window), high, low)
        lanes = (len(names), self.shape.layers, self.shape.heads)
        self.manager.prompt_release(names, high.reshape(lanes), low.reshape(lanes))
        pages = self.manager.used(names)
        for row, name in enumerate(names):
            tokens = [integers.total(part[row]) for part in (high, low)]
            counts = [integers.total(pages[row, ..., section]) for section in range(2)]
            self.held[name] = Held(np.array(tokens, np.int64), np.array(counts, np.int64))

    def plan(self, names: Sequence[int]) -> np.ndarray:
        """Growth of all heads in the next step, (2, S, layers, heads), high and low."""
        table = self.manager.requests.table
        seen = np.array([table[name].seen for name in names], np.int64)
        growth = np.empty((2, len(names), len(self.limits)), np.int64)
        from refemu.units.leankv.kernels import draws

        draws.grown(self._words(names), self.limits, seen, np.int64(self.layout.window), growth[0], growth[1])
        return growth.reshape(2, len(names), self.shape.layers, self.shape.heads)

    def require(self, names: Sequence[int], growth: np.ndarray) -> None:
        """Raise OutOfPages if a step lacks pages; changes nothing."""
        if self.manager.free >= len(names) * len(self.limits):  # at most one page a head
            return
        sizes = np.array([self.shape.high_tokens, self.shape.low_tokens or 1])
        full = self.manager.lengths(names) == self.manager.used(names) * sizes
        needed = int(np.count_nonzero(full & (np.moveaxis(growth, 0, -1) > 0)))
        if needed > self.manager.free:
            raise OutOfPages(f"serving: pages must be at most {self.manager.free}, the free ones, got {needed}")

    def step(self, names: Sequence[int], growth: np.ndarray) -> None:
        """Grow by one token."""
        moved = self.manager.step_allocate(names, growth[0], growth[1])
        pages = np.asarray(moved.counts, np.int64).reshape(len(names), -1, 2).sum(axis=1, dtype=np.int64)
        tokens = growth.reshape(2, len(names), -1).sum(axis=2, dtype=np.int64)
        for row, name in enumerate(names):
            held = self.held[name]
            held.tokens += tokens[:, row]
            held.pages += pages[row]

    def finish(self, names: Sequence[int]) -> None:
        """Free all pages of requests."""
        self.manager.finish(names)
        for name in names:
            del self.held[name]

    def usage(self, names: Sequence[int] | None) -> Usage:
        """What requests hold; None: all."""
        counts = [0, 0, 0, 0]
        for held in self.held.values() if names is None else [self.held[name] for name in names]:
            for place, count in enumerate((*held.tokens.tolist(), *held.pages.tolist())):
                counts[place] += count
        tokens, pages = (counts[0], counts[1]), (counts[2], counts[3])
        return Usage(tokens, pages, self.layout.token, self.layout.page, len(self.limits))

    def _words(self, names: Sequence[int]) -> np.ndarray:
        """Seeds of all heads of requests, (S, heads) uint64."""
        for name in names:
            if name not in self._seeds:
                stream = prng.stream(f"serving/tokens/{self._worker}/{name}", self._seed)
                self._seeds[name] = prng.words(stream, 0, len(self.limits))
        return np.stack([self._seeds[name] for name in names])
