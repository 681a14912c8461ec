"""Pages of one worker's KV heads: prompts are compressed into them, steps change them, attention reads them.

Paper: [leankv §5.3, §6.1]. Every method serves all sequences, layers and heads of a call at once; the units decide.
Decisions: D-leankv-25 (window tokens in high pages), D-leankv-33 (a step is planned for all layers before the first of
them runs), D-leankv-50 (keys are stored after the rotation), D-leankv-53 (too few pages).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.models.schemes.leankv.steps import Classes, Units
from refemu.units.leankv import page_manager, page_table
from refemu.units.leankv.kv_compressor import plan_prompt
from refemu.units.leankv.page_manager import Memory, PageManager, Shape
from refemu.units.leankv.page_table import HIGH, LOW
from refemu.units.leankv.paged_attention import Pages

Undo = Callable[[], None]


@dataclass
class Prompt:
    """Arrays of a prompt from the layers, one per layer, for H KV heads."""

    keys: list[np.ndarray] = field(default_factory=list)  #: (N, H, F) fp16 values
    values: list[np.ndarray] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)  #: (H, N) float32 patterns of S
    shares: list[np.ndarray] = field(default_factory=list)  #: (H, N) patterns

    def of_heads(self, heads: slice) -> "Prompt":
        """The part of one worker."""
        return Prompt(
            [k[:, heads] for k in self.keys],
            [v[:, heads] for v in self.values],
            [s[heads] for s in self.sums],
            [s[heads] for s in self.shares],
        )


@dataclass(frozen=True, eq=False)
class Image:
    """Pages of one request on the host."""

    prompt: int  #: tokens of the prompt
    seen: int  #: tokens so far
    lengths: np.ndarray  #: (layers, H, 2) stored tokens, high and low
    pages: np.ndarray  #: images of the pages, head by head, high ones first


@dataclass(frozen=True, eq=False)
class Stored:
    """State of the heads before a step: (S, layers, H, ...)."""

    score: np.ndarray  #: (..., slots) float32 patterns, high slots, then low ones
    position: np.ndarray  #: (..., slots) int32 patterns
    lengths: np.ndarray  #: (..., 2)


@dataclass(frozen=True, eq=False)
class Plan:
    """One step of some sequences, decided for all layers and heads: (S, layers, H)."""

    positions: np.ndarray  #: (S,) positions of the new tokens
    prompts: np.ndarray  #: (S,) lengths of the prompts
    before: Stored
    decided: Any  #: Result of generation_compressor
    cells: np.ndarray  #: (..., L) entries with the pages of the step
    lengths: np.ndarray  #: (..., 2) with the new tokens
    high: np.ndarray  #: (..., 2) page and slot of the new token
    low: np.ndarray  #: (..., 2) destination of the token in that slot
    moves: np.ndarray  #: (...) whether that token moves

    @property
    def grown(self) -> np.ndarray:
        """(...) whether a head stores one more token."""
        return np.asarray(self.decided.delta_high | self.decided.delta_low)


class Journal:
    """State of a pool: the pages of some sequences at once, other pages just before they change.

    Rewinding many steps thus takes one copy of the pages, not a copy of the scores per step.
    """

    def __init__(self, pool: "Pool", names: Sequence[int]) -> None:
        self._pool, self._manager = pool, pool.manager.fork()
        self._kept: dict[int, np.ndarray] = {}
        high, low = np.moveaxis(pool.manager.used(names), -1, 0)[..., None]
        cells = pool.manager.cells(names)
        cell = np.arange(cells.shape[-1])
        self.keep(cells[(cell < high) | (cell >= cells.shape[-1] - low)])

    def keep(self, ids: np.ndarray) -> None:
        """Save these pages before they change."""
        fresh = [page for page in ids.tolist() if page not in self._kept]
        self._kept.update(zip(fresh, self._pool.images[fresh], strict=True))

    def undo(self) -> None:
        """Restore the pool."""
        self._pool.manager = self._manager
        if self._kept:
            self._pool.images[list(self._kept)] = np.stack(list(self._kept.values()))


class Pool:
    """Pages, their manager, and the steps of the units on them."""

    def __init__(self, units: Units, shape: Shape) -> None:
        """shape: parameters of the manager."""
        self.units: Units = units
        self.layouts: Pages = units.pages
        self.manager: PageManager = units.manager(shape)
        self.images: np.ndarray = self.layouts.high.empty(shape.pages)  # takes no memory until written

    def __repr__(self) -> str:
        return f"Pool({self.manager!r})"

    def admit(self, prompts: Mapping[int, int]) -> Undo:
        """Allocate pages for whole prompts: name -> tokens. Raises OutOfPages and then changes nothing."""
        before = self.manager.fork()
        self.manager.prompt_allocate(prompts)
        return self._back(before, self.manager.cells(list(prompts)))

    def _back(self, manager: Any, cells: np.ndarray) -> Undo:
        """Undo of changes to the manager and these pages."""
        ids = np.unique(cells[cells >= 0])
        pages = self.images[ids]

        def undo() -> None:
            self.manager = manager
            self.images[ids] = pages

        return undo

    def compress(self, prompts: Mapping[int, Prompt]) -> list[Classes]:
        """Classify the tokens of admitted prompts, free unneeded pages, and fill the others.

        Returns the outcome of the tokens of each: (layers, H, N).
        """
        names = list(prompts)
        classes = [self.units.classify(np.stack(prompt.shares)) for prompt in prompts.values()]
        self.manager.prompt_release(
            names,
            np.stack([classified.high for classified in classes]),
            np.stack([classified.low for classified in classes]),
        )
        cells = self.manager.cells(names)
        for entry, classified, prompt in zip(cells, classes, prompts.values(), strict=True):
            for layer in range(len(prompt.keys)):
                self._write_prompt(entry[layer], classified.cls[layer], classified.order[layer], prompt, layer)
        return classes

    def _write_prompt(self, cells: np.ndarray, cls: np.ndarray, order: np.ndarray, prompt: Prompt, layer: int) -> None:
        """Fill the pages of one layer's heads: cells (H, L), cls and order (H, N)."""
        quirks = [name for name in self.units.config.quirks if name in ("score_by_rank", "position_epoch")]
        scores = prompt.sums[layer].view(np.float32)
        plans = [plan_prompt(cls[h], order[h], scores[h], quirks) for h in range(len(cells))]
        for section, page in enumerate(self.layouts.sections):
            tokens = [plan.high if section == HIGH else plan.low for plan in plans]
            counts = [len(part) for part in tokens]
            if not any(counts):
                continue
            heads, token = np.repeat(np.arange(len(cells)), counts), np.concatenate(tokens)
            rank = np.concatenate([np.arange(count) for count in counts])
            pages, slots = page_table.locate(cells[heads], section, rank, page.tokens)
            score, position = (
                np.concatenate([getattr(plan, name)[part] for plan, part in zip(plans, tokens, strict=True)])
                for name in ("score", "position")
            )
            key = prompt.keys[layer][token, heads]
            self._write(page, pages, slots, key, prompt.values[layer][token, heads], score, position)

    def _write(
        self,
        page: UnifiedPage,
        pages: np.ndarray,
        slots: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        score: Any,
        position: Any,
    ) -> None:
        self.units.unit("kv_compressor").write(
            page, self.layouts.preset, self.images, pages, slots, key, value, score, position
        )

    def stored(self, names: Sequence[int]) -> Stored:
        """Scores and positions of all tokens of these sequences."""
        cells, lengths = self.manager.cells(names), self.manager.lengths(names)
        score, position = self.units.unit("paged_attention").get_scores(self.layouts, self.images, cells, lengths)
        return Stored(score, position, lengths)

    def plan(self, names: Sequence[int], journal: Journal | None = None) -> tuple[Plan, Undo | None]:
        """Decide the next step of running sequences, allocate its pages, move tokens to the low precision.

        journal: undoes this step and others; without it the Undo is of this step. Raises OutOfPages and then changes
        nothing.
        """
        before, stored = None if journal else self.manager.fork(), self.stored(names)
        known = [self.manager.requests.table[name] for name in names]
        positions, prompts = (
            np.array([getattr(request, key) for request in known], np.int64).reshape(-1, 1, 1)
            for key in ("seen", "prompt")
        )
        decided = self.units.decide(
            stored.score, stored.position, stored.lengths[..., 0], stored.lengths[..., 1], positions, prompts
        )
        self.manager.step_allocate(names, decided.delta_high.astype(np.int64), decided.delta_low.astype(np.int64))
        cells, (high, low) = self.manager.cells(names), self.layouts.sections
        moves = decided.low_slot >= 0
        taken = np.stack(page_table.locate(cells, HIGH, decided.victim.astype(np.int64), high.tokens), axis=-1)
        target = np.stack(page_table.locate(cells, LOW, np.where(moves, decided.low_slot, 0), low.tokens), axis=-1)
        plan = Plan(
            positions.ravel(),
            prompts.ravel(),
            stored,
            decided,
            cells,
            self.manager.lengths(names),
            taken,
            target,
            moves,
        )
        touched = np.unique(np.concatenate([plan.high[..., 0].ravel(), plan.low[plan.moves][:, 0]]))
        undo = None if journal else self._back_of(before, cells, plan, touched)
        if journal:
            journal.keep(touched)
        if low is not high and moves.any():  # for all layers: they depend on stored codes only
            self.units.unit("kv_compressor").requantize(
                high, low, self.layouts.preset, self.images, taken[moves], target[moves]
            )
        return plan, undo

    def _back_of(self, manager: Any, cells: np.ndarray, plan: Plan, touched: np.ndarray) -> Undo:
        """`_back` for whole pages whose records change, and for the scores everywhere else."""
        pages, before = self.images[touched], plan.before

        def undo() -> None:
            self.manager = manager
            attention = self.units.unit("paged_attention")
            attention.set_scores(self.layouts, self.images, cells, before.lengths, before.score)
            self.images[touched] = pages

        return undo

    def write(self, plan: Plan, layer: int, key: np.ndarray, value: np.ndarray) -> None:
        """Store the new tokens of a planned step in one layer: key, value (S, H, F), fp16 values in float32."""
        pages, slots = plan.high[:, layer].reshape(-1, 2).T
        position = np.repeat(plan.positions, key.shape[1]).astype(np.int32)
        page = self.layouts.high
        score = np.zeros(len(pages), np.float32)
        self._write(
            page, pages, slots, key.reshape(-1, key.shape[-1]), value.reshape(-1, value.shape[-1]), score, position
        )

    def attend(self, plan: Plan, layer: int, q: np.ndarray) -> np.ndarray:
        """Attend to the pages of one layer, and add to the scores of their tokens.

        q: (S, H, G, F), fp16 values in float32, as what it returns, (S, H, G, F).
        """
        cells, lengths = plan.cells[:, layer], plan.lengths[:, layer]
        newest = np.broadcast_to(plan.positions[:, None], cells.shape[:-1])
        out: np.ndarray = self.units.unit("paged_attention").step(
            self.layouts, q, self.images, cells, lengths, newest, self.units.arithmetic
        )
        return out

    def save(self, name: int) -> Image:
        """Copy the pages of a request to the host."""
        request = self.manager.requests.table[name]
        return Image(request.prompt, request.seen, self.manager.lengths([name])[0], self.images[self._ids(name)])

    def restore(self, name: int, image: Image) -> Undo:
        """Copy pages back: they are allocated for all tokens, and those that are not needed released."""
        before = self.manager.fork()
        self.manager.prompt_allocate({name: image.seen})
        undo = self._back(before, self.manager.cells([name]))
        self.manager.prompt_release([name], image.lengths[None, ..., 0], image.lengths[None, ..., 1])
        self.manager.requests.table[name].prompt = image.prompt
        self.images[self._ids(name)] = image.pages
        return undo

    def _ids(self, name: int) -> np.ndarray:
        """Pages of a request, head by head, high ones first."""
        cells, used = self.manager.cells([name])[0], self.manager.used([name])[0, ..., None]
        cell, length = np.arange(cells.shape[-1]), cells.shape[-1]
        ids: np.ndarray = cells[(cell < used[..., 0, :]) | (cell >= length - used[..., 1, :])]
        return ids

    def finish(self, names: Sequence[int]) -> None:
        """Free the pages of sequences."""
        self.manager.finish(names)

    def memory(self) -> Memory:
        """Memory of all sequences."""
        memory: Memory = self.manager.memory(self.layouts.high, self.layouts.low)
        return memory

    def memory_of(self, name: int) -> Memory:
        """Memory of one sequence; the shared tables count in full."""
        manager, shape = self.manager, self.manager.shape
        tokens = manager.lengths([name])
        high, low, pages = (
            int(integers.total(part)) for part in (tokens[..., 0], tokens[..., 1], manager.used([name]))
        )
        seen = shape.layers * shape.heads * manager.requests.table[name].seen
        return page_manager.memory(shape, seen, (high, low), pages, self.layouts.high, self.layouts.low)
