"""Caches of a LeanKV scheme: sequences in the pools of the workers, and the state of each layer there.

Paper: [leankv §6.1]: workers divide the KV heads; each has its own pool, list and tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.models.cache import Caches
from refemu.models.schemes.leankv.pool import Image, Journal, Plan, Pool, Prompt, Undo
from refemu.models.schemes.leankv.steps import Classes
from refemu.units.leankv.page_manager import FINISH, PROMPT, RELEASE, STEP, Memory


class Past:
    """A point in a sequence of passes. It links to everything done since, so unreferenced points are freed.

    Consecutive passes without a mark between them are undone together.
    """

    def __init__(self) -> None:
        self.undo: list[Undo] = []
        self.journals: list[Journal] = []  #: journals of the pools, from the second pass on
        self.following: Past | None = None

    def __repr__(self) -> str:
        return f"Past({len(list(self.all())) - 1} passes ago)"

    def all(self) -> Iterator["Past"]:
        """This point and the later ones."""
        moment: Past | None = self
        while moment is not None:
            yield moment
            moment = moment.following


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the memory manager."""

    op: int
    names: tuple[int, ...]
    arrays: dict[str, Any]  #: prompts; or high and low, (S, layers, H)

    def lanes(self) -> dict[str, np.ndarray]:
        """Inputs of page_manager with lanes, in the order of its ports."""
        ports = {"sequences": self.names, **self.arrays}
        return {
            name: np.asarray(ports.get(name, ()), np.int64).ravel() for name in ("sequences", "prompts", "high", "low")
        }


class Pools:
    """The pools of all workers. Arrays have all heads; each worker gets its part."""

    def __init__(self, pools: Sequence[Pool], heads: int) -> None:
        """heads: KV heads of the model."""
        self.pools: tuple[Pool, ...] = tuple(pools)
        size = heads // len(pools)
        self.parts: list[slice] = [slice(first, first + size) for first in range(0, heads, size)]
        self.now: Past = Past()
        self._marked = True
        self.calls: list[Call] = []  #: calls of the first worker's memory manager, for taps
        self.histories: dict[int, Any] = {}  #: by request: its prompt and steps, for taps that record them

    def __repr__(self) -> str:
        return f"Pools({len(self.pools)} workers, {self.pools[0]!r})"

    def mark(self) -> Past:
        """Now, for `rewind`."""
        self._marked = True
        return self.now

    def begin(self) -> None:
        """Start a new pass; later `note` calls belong to it."""
        self._marked = False
        self.now.following = self.now = Past()  # from left to right: the old point links to the new one
        calls = len(self.calls)

        def undo() -> None:
            del self.calls[calls:]

        self.note(undo)

    def note(self, undo: Undo) -> None:
        """Record how to undo something."""
        self.now.undo.append(undo)

    def rewind(self, past: Past) -> None:
        """Undo everything since."""
        for moment in reversed(list(past.all())[1:]):
            for undo in reversed(moment.undo):
                undo()
        past.following, self.now, self._marked = None, past, True

    @staticmethod
    def needed(pool: Pool, tokens: int) -> int:
        """Pages needed for admission (D-leankv-35)."""
        shape = pool.manager.shape
        per_head = -(-tokens // shape.high_tokens) + (shape.low_tokens is not None)
        return int(shape.layers * shape.heads * per_head)

    def admit(self, prompts: Mapping[int, int]) -> None:
        """`Pool.admit`, in a new pass."""
        self.begin()
        for pool in self.pools:
            self.note(pool.admit(prompts))
        self._called(PROMPT, list(prompts), prompts=list(prompts.values()))

    def compress(self, prompts: Mapping[int, Prompt]) -> list[list[Classes]]:
        """`Pool.compress`, for each pool."""
        classes = [
            pool.compress({name: prompt.of_heads(heads) for name, prompt in prompts.items()})
            for pool, heads in zip(self.pools, self.parts, strict=True)
        ]
        lengths = self.pools[0].manager.lengths(list(prompts))
        self._called(RELEASE, list(prompts), high=lengths[..., 0], low=lengths[..., 1])
        return classes

    def restore(self, name: int, images: Sequence[Image]) -> None:
        """`Pool.restore`, in a new pass."""
        self.begin()
        for pool, image in zip(self.pools, images, strict=True):
            self.note(pool.restore(name, image))
        first = images[0]
        self._called(PROMPT, [name], prompts=[first.seen])
        self._called(RELEASE, [name], high=first.lengths[..., 0], low=first.lengths[..., 1])

    def plan(self, names: Sequence[int]) -> list[Plan]:
        """`Pool.plan`, in a new pass."""
        if self._marked:
            self.begin()
        elif not self.now.journals:
            self.now.journals = [Journal(pool, names) for pool in self.pools]
            for record in self.now.journals:
                self.note(record.undo)
        plans: list[Plan] = []
        journals: list[Journal | None] = [*self.now.journals] or [None for _ in self.pools]
        for pool, journal in zip(self.pools, journals, strict=True):
            plan, undo = pool.plan(names, journal)
            plans.append(plan)
            if undo is not None:
                self.note(undo)
        self._called(STEP, names, high=plans[0].decided.delta_high, low=plans[0].decided.delta_low)
        return plans

    def _called(self, op: int, names: Sequence[int], **arrays: Any) -> None:
        """Record a call of the first worker's manager."""
        self.calls.append(Call(op, tuple(names), arrays))

    def write(self, plans: Sequence[Plan], layer: int, key: np.ndarray, value: np.ndarray) -> None:
        """As `Pool.write`."""
        for pool, plan, heads in zip(self.pools, plans, self.parts, strict=True):
            pool.write(plan, layer, key[:, heads], value[:, heads])

    def attend(self, plans: Sequence[Plan], layer: int, q: np.ndarray) -> np.ndarray:
        """As `Pool.attend`: out (S, H, G, F)."""
        return np.concatenate(
            [
                pool.attend(plan, layer, q[:, heads])
                for pool, plan, heads in zip(self.pools, plans, self.parts, strict=True)
            ],
            axis=1,
        )

    def finish(self, names: Sequence[int]) -> None:
        """`Pool.finish`; it cannot be undone."""
        for pool in self.pools:
            pool.finish(names)
        for name in names:
            self.histories.pop(name, None)
        self._called(FINISH, names)
        self.now, self._marked = Past(), True

    def memory(self) -> Memory:
        """Memory of all sequences in all pools."""
        return _together([pool.memory() for pool in self.pools])

    def memory_of(self, name: int) -> Memory:
        """Memory of one sequence in all pools; the shared tables count in full."""
        return _together([pool.memory_of(name) for pool in self.pools])


def _together(parts: Sequence[Memory]) -> Memory:
    return Memory(**{name: sum(int(getattr(part, name)) for part in parts) for name in vars(parts[0])})


class LayerCache:
    """The runtime's cache of a layer: stores keys and values until attention reads them."""

    key: np.ndarray
    value: np.ndarray

    def __init__(self, held: "Held") -> None:
        self.held = held  #: the caches of all layers
        self.length: int = 0
        self.fresh: bool = True  #: whether the tokens of this pass are a prompt
        self.key = self.value = np.empty((0, 0, 0), np.float32)

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"LayerCache({len(self)} tokens)"

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Keys and values of a pass, (tokens, H, F)."""
        self.fresh = self.length == 0
        self.key, self.value = keys, values
        self.length += len(keys)


@dataclass
class Pass:
    """State that the layers of one pass share."""

    prompt: Prompt
    plans: list[Plan]


class Held(Caches):
    """Sequences whose next tokens are computed together: a prompt, or one token of each."""

    def __init__(self, layers: int, pools: Pools, names: Sequence[int] = (0,), engine: bool = False) -> None:
        """engine: whether an engine admits the prompt and compresses it, together with others."""
        super().__init__(LayerCache(self) for _ in range(layers))
        self.pools: Pools = pools
        self.names: tuple[int, ...] = tuple(names)
        self.engine: bool = engine
        self.current: Pass = Pass(Prompt(), [])

    def __repr__(self) -> str:
        return f"Held({len(self)} layers, sequences {self.names}, {self.pools!r})"

    def passes(self, ids: np.ndarray) -> list[np.ndarray]:
        """A prompt at once, later tokens one by one."""
        return [ids] if len(self[0]) == 0 else [ids[t : t + 1] for t in range(len(ids))]

    def mark(self) -> Past:
        """Current state of the pools."""
        return self.pools.mark()

    def rewind(self, tokens: int, mark: Past) -> None:
        """Restore the state of a mark."""
        self.pools.rewind(mark)
        for cache in self:
            cache.length = tokens

    def storage_bits(self) -> int:
        """Size of the stored tokens of all sequences in bits, with metadata, scores, positions, but not whole pages."""
        return 8 * self.pools.memory().token_bytes

    def start_prompt(self, tokens: int) -> None:
        """Start a prompt: take its pages, unless the engine did."""
        self.current = Pass(Prompt(), [])
        if not self.engine:
            self.pools.admit({self.names[0]: tokens})

    def start_step(self) -> None:
        """Start a step: plan it for all layers."""
        self.current = Pass(Prompt(), self.pools.plan(self.names))
