"""The memory manager: allocates pages for all heads of all requests of a call at once, and recycles them.

Paper: [leankv §5.2, §5.3, Fig. 5]. Composed of prefix_sum, free_page_list and page_table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused
from refemu.units import AnyUnit, Config, DeclaredState, Result, RunFunction, Unit, decides
from refemu.units.leankv.free_page_list import OutOfPages
from refemu.units.leankv.page_manager.pool import Pool, total
from refemu.units.leankv.page_manager.registers import CALLS, DOES, FINISH, PROMPT, RELEASE, STEP
from refemu.units.leankv.page_manager.requests import NOTHING, Memory, Moved, Shape, require_pages, up
from refemu.units.leankv.page_table import HIGH, LOW, TableOverflow
from refemu.units.leankv.prefix_sum import scan

__all__ = ["UNIT", "Memory", "Moved", "OutOfPages", "PageManager", "Shape", "State", "TableOverflow", "run"]


class PageManager(Pool):
    """Memory manager with four events, the calls of [leankv §5.3]; each serves all sequences, layers and heads.

    Order of every prefix sum: sequence (in the order of the call), layer, head, high before low (D-leankv-38). A call
    that raises, also for lack of pages (D-leankv-53), has changed nothing. Stepped, a call is `plan`, then a `level`
    for each level of its prefix sum, `take` or `give` for the pointers of the list, and the writes to the table one by
    one: `append`, `split`, `clear`, `tokens` (D-leankv-66). A call by `step` is for the first `members` lanes of
    `sequences`; `high` and `low` have all their heads. [leankv §5.2, §5.3, Fig. 5]
    """

    name = "page_manager"

    does: ClassVar[Mapping[str, str]] = DOES
    events: ClassVar[tuple[str, ...]] = tuple(DOES)

    # The four events.

    def prompt_allocate(self, prompts: Mapping[int, int]) -> Moved:
        """Admit sequences: allocate pages for all tokens of the prompt in every head [leankv §5.3].

        prompts: tokens of the prompt, 1 to `max_len`, by name of the sequence. Raises OutOfPages: too few pages are
        free. Raises TableOverflow: a prompt does not fit an entry. Raises Refused: a sequence is known already, a
        prompt has 0 or too many tokens, or no slot is free.
        """
        clean = self.requests.require_prompts(prompts)
        per_head = {s: up(n, self.shape.high_tokens) + self.shape.reserve for s, n in clean.items()}
        counts = [per_head[s] for s in clean for _ in range(self.shape.layers * self.shape.heads)]
        shape = (len(clean), self.shape.layers, self.shape.heads)
        self.requests.require_cells(np.zeros(shape, np.int64), np.array(counts, np.int64).reshape(shape))
        require_pages(total(counts), self.free)
        self.requests.admit(clean)
        moved = self._allocated(counts)
        for (sequence, entry), count, page in _regions(self._heads(list(clean)), moved):
            self._append(entry, HIGH, moved.ids[page : page + count])
            self._set_tokens(entry, clean[sequence], 0)
        return self._done(PROMPT, moved, NOTHING, sequences=list(clean), prompts=list(clean.values()))

    def prompt_release(self, sequences: Sequence[int], high: ArrayLike, low: ArrayLike) -> tuple[Moved, Moved]:
        """Retain pages for the tokens of compressed prompts, and recycle the others.

        A head whose two runs need one page more than the prompt had gets it first, by a separate prefix sum.

        sequences: sequences whose prompts are not compressed yet, S of them. high, low: (S, layers, heads), tokens that
        every head retains. Raises OutOfPages: too few pages are free. Raises TableOverflow: the runs of a head would
        meet. Raises Refused: a sequence is unknown, named twice or compressed, or retains more tokens than it has.
        Raises RefusedType: `high` or `low` has another dtype or shape.
        """
        known = self.requests.require_known(sequences, running=False)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        self.requests.require_kept(known, n_high, n_low)
        pages = np.stack([up(n_high, self.shape.high_tokens), up(n_low, self.shape.low_tokens or 1)], axis=-1)
        held = self.used(known)[..., 0]
        lacking = np.maximum(pages[..., 0] + pages[..., 1] - held, 0)
        self.requests.require_cells(held, lacking)
        require_pages(total(lacking.ravel().tolist()), self.free)
        heads = self._heads(known)
        came = self._allocated(lacking.ravel().tolist()) if lacking.any() else NOTHING
        for (_, entry), count, page in _regions(heads, came):
            self._append(entry, HIGH, came.ids[page : page + count])
        self.totals["shortfall"] += len(came.ids)
        went = self._recycled(
            [self._split(entry, *kept) for (_, entry), kept in zip(heads, pages.reshape(-1, 2).tolist(), strict=True)]
        )
        tokens = np.stack([n_high, n_low], axis=-1).reshape(-1, 2).tolist()
        for (sequence, entry), (stays_high, stays_low) in zip(heads, tokens, strict=True):
            self._set_tokens(entry, stays_high, stays_low)
            self.totals["pruned"] += self.requests.table[sequence].prompt - stays_high - stays_low
        for sequence in known:
            self.requests.table[sequence].running = True
        return self._done(RELEASE, went, came, sequences=known, high=n_high, low=n_low), came

    def step_allocate(self, sequences: Sequence[int], high: ArrayLike, low: ArrayLike) -> Moved:
        """Grow the sections of running sequences by one step.

        A head gets a page if a full section grows, so at most one; without `lazy_pages` for every full section.

        sequences: sequences whose prompts are compressed, S of them. high, low: (S, layers, heads), tokens that every
        section gains, 0 or 1 together. Raises OutOfPages: too few pages are free. Raises TableOverflow: the runs of a
        head would meet. Raises Refused: a sequence is unknown, named twice or not compressed, or grows by more than one
        token. Raises RefusedType: `high` or `low` has another dtype or shape.
        """
        known = self.requests.require_known(sequences, running=True)
        grow = [self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low"))]
        self.requests.require_deltas(known, *grow)
        delta = np.stack(grow, axis=-1)
        wanted = self._full(known) & ((delta > 0) | (not self.shape.lazy_pages))
        need = np.count_nonzero(wanted, axis=-1)
        held = self.used(known)
        self.requests.require_cells(held[..., 0] + held[..., 1], need)
        require_pages(int(np.count_nonzero(wanted)), self.free)
        moved = self._allocated(wanted.ravel().astype(np.int64).tolist())
        entries = self._entries(known)
        sections = [(entry, section) for entry in entries for section in (HIGH, LOW)]
        for (entry, section), count, page in _regions(sections, moved):
            self._append(entry, section, moved.ids[page : page + count])
        for entry, (more_high, more_low) in zip(entries, delta.reshape(-1, 2).tolist(), strict=True):
            stored = self.table.tokens(entry)
            self._set_tokens(entry, stored[HIGH] + more_high, stored[LOW] + more_low)
            self.totals["pruned"] += 1 - more_high - more_low
        self.totals["step_pages"] = max(self.totals["step_pages"], int(need.max(initial=0)))
        for sequence in known:
            self.requests.table[sequence].seen += 1
        return self._done(STEP, moved, NOTHING, sequences=known, high=grow[0], low=grow[1])

    def finish(self, sequences: Sequence[int]) -> Moved:
        """Recycle all pages of sequences, by one prefix sum, and free their slots.

        sequences: names. Raises Refused: a sequence is unknown or named twice.
        """
        known = self.requests.require_known(sequences)
        entries = self._entries(known)
        counts = [count for entry in entries for count in self.table.used(entry)]
        ids = [self._clear(entry) for entry in entries]
        moved = self._recycled(ids, counts)
        self.requests.remove(known)
        return self._done(FINISH, moved, NOTHING, sequences=known)

    # Parts of the calls.

    def _heads(self, sequences: Sequence[int]) -> list[tuple[int, int]]:
        """(sequence, entry) of all heads."""
        owners = [s for s in sequences for _ in range(self.shape.layers * self.shape.heads)]
        return list(zip(owners, self._entries(sequences), strict=True))

    def _full(self, sequences: Sequence[int]) -> np.ndarray:
        """Mask of the full sections: (S, layers, heads, 2)."""
        per_page = np.array([self.shape.high_tokens, self.shape.low_tokens or 1])
        full = self.lengths(sequences) == self.used(sequences) * per_page
        return full & np.array([True, self.shape.low_tokens is not None])

    @decides("D-leankv-38")
    def _allocated(self, counts: Sequence[int]) -> Moved:
        base = self.list.start
        sums = self._scan(counts, base)
        moved = Moved(tuple(counts), sums, tuple(self.list.allocate(total(counts))))
        self._inner("take", moved)
        return moved

    @decides("D-leankv-38")
    def _recycled(self, parts: Sequence[Sequence[int]], counts: Sequence[int] | None = None) -> Moved:
        base = self.list.tail % self.shape.pages
        sizes = [len(part) for part in parts] if counts is None else list(counts)
        sums = self._scan(sizes, base)
        ids = tuple(page for part in parts for page in part)
        self.list.recycle(ids)
        moved = Moved(tuple(sizes), sums, ids)
        self._inner("give", moved)
        return moved

    def _scan(self, counts: Sequence[int], base: int) -> tuple[int, ...]:
        if self._log is not None:
            self._levels(counts, base)
        sums = scan(counts, base)
        self.totals["levels"] += sums.levels
        self.totals["adds"] += sums.adds
        return sums.inclusive

    def _done(self, op: int, moved: Moved, came: Moved, **inputs: Any) -> Moved:
        self._note(CALLS[op], op=op, members=len(inputs["sequences"]), **inputs)
        self._moves = moved, came
        return moved

    # The calls by ports.

    def _called(
        self, op: int, members: int, sequences: Sequence[int], prompts: Sequence[int], high: Any, low: Any
    ) -> None:
        """Make one of the four calls."""
        names, shape = list(sequences[:members]), (members, self.shape.layers, self.shape.heads)
        kept = [
            np.array(value[: members * self.shape.layers * self.shape.heads], np.int64).reshape(shape)
            for value in (high, low)
        ]
        if op == PROMPT:
            if len(set(names)) < len(names):
                raise Refused(f"{self.name}: sequences must differ, got {names}")
            self.prompt_allocate(dict(zip(names, prompts, strict=False)))
        elif op == RELEASE:
            self.prompt_release(names, *kept)
        elif op == STEP:
            self.step_allocate(names, *kept)
        else:
            self.finish(names)


def _regions(places: Sequence[tuple[int, int]], moved: Moved) -> Iterator[tuple[tuple[int, int], int, int]]:
    """(place, pages, number of the first page) of every region with pages."""
    if not moved.counts:
        return
    at = 0
    for place, count in zip(places, moved.counts, strict=True):
        if count:
            yield place, count, at
        at += count


FIG5: dict[str, int] = {
    "pages": 32,
    "layers": 1,
    "heads": 2,
    "high_tokens": 2,
    "low_tokens": 4,
    "max_len": 12,
    "slots": 2,
    "table_extra": 1,
    "scrub": False,
}  #: sizes of [leankv Fig. 5]

UNIT: AnyUnit = Unit(
    unit_class=PageManager,
    paper="leankv §5.3, Fig. 5",
    meaning="pages for all heads of all requests, call by call",
    configs={
        "paper": Config(**FIG5, reserve_low=0, lazy_pages=True),
        "diffkv": Config(**FIG5, reserve_low=1, lazy_pages=False),
    },
    peaks=("step_pages",),
)
State: type[DeclaredState] = PageManager.State
run: RunFunction[Result] = UNIT.run
