"""Pages of requests whose manager is checked after every call: where each page is, and in which order pages move.

Paper: [leankv §5.2, §5.3, Fig. 5]. Nothing here is the manager's own: a list of free pages loses pages at its front and
gains them at its end, in the order of requests, layers, heads, and high before low pages (D-leankv-38).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from refemu.models.schemes.leankv.serving.pages import Store

Run = list[int]  #: ids of pages, in their order


class Broken(RuntimeError):
    """A memory manager broke an invariant."""


class CheckedStore(Store):
    """A store that raises `Broken` for a manager that loses, doubles or misplaces a page."""

    def admit(self, prompts: Mapping[int, int]) -> None:
        """As `Store.admit`; a head keeps the first pages of its prompt, and what it frees goes to the end."""
        free = self.manager.free_ids()
        super().admit(prompts)
        shape, at, rest = self.shape, 0, list[int]()
        prompt_pages = list[Run]()
        for tokens in prompts.values():
            for _ in range(shape.layers * shape.heads):
                count = -(-tokens // shape.high_tokens) + shape.reserve
                prompt_pages.append(free[at : at + count])
                at += count
        for pages, (high, low) in zip(prompt_pages, self._runs(list(prompts)), strict=True):
            lacking = max(len(high) + len(low) - len(pages), 0)
            pages += free[at : at + lacking]
            at += lacking
            _require("a prompt keeps its first pages", [*high, *low], pages[: len(high) + len(low)])
            rest += pages[len(high) + len(low) :]
        _require("the list after a prompt", self.manager.free_ids(), free[at:] + rest)
        self._require_places()

    def step(self, names: Sequence[int]) -> None:
        """As `Store.step`; heads take pages from the front of the list."""
        free, before = self.manager.free_ids(), self._runs(names)
        super().step(names)
        pairs = zip(before, self._runs(names), strict=True)
        new = [page for old, runs in pairs for was, run in zip(old, runs, strict=True) for page in run[len(was) :]]
        _require("a step takes the first free pages", new, free[: len(new)])
        _require("the list after a step", self.manager.free_ids(), free[len(new) :])
        self._require_places()

    def finish(self, names: Sequence[int]) -> None:
        """As `Store.finish`; all pages go to the end of the list."""
        free, held = self.manager.free_ids(), self._runs(names)
        super().finish(names)
        _require("the list after an end", self.manager.free_ids(), free + [p for runs in held for r in runs for p in r])
        self._require_places()

    def require_names(self, running: Sequence[int]) -> None:
        """Raise `Broken` if a request that does not run has pages, or one that runs has none."""
        _require("requests with pages", sorted(self.manager.requests.table), sorted(running))

    def _runs(self, names: Sequence[int]) -> list[tuple[Run, Run]]:
        """High and low pages of every head."""
        cells = self.manager.cells(names).reshape(-1, self.shape.length).tolist()
        used = self.manager.used(names).reshape(-1, 2).tolist()
        return [(row[:high], row[::-1][:low]) for row, (high, low) in zip(cells, used, strict=True)]

    def _require_places(self) -> None:
        """Every page is in one place, and every section has as many as its tokens need."""
        names = list(self.manager.requests.table)
        held = [page for runs in self._runs(names) for run in runs for page in run]
        _require("places of pages", sorted(held + self.manager.free_ids()), list(range(self.shape.pages)))
        sizes = np.array([self.shape.high_tokens, self.shape.low_tokens or 1])
        pages = -(-self.manager.lengths(names) // sizes)
        _require("pages of tokens", self.manager.used(names).ravel().tolist(), pages.ravel().tolist())


def _require(rule: str, got: Sequence[int], wanted: Sequence[int]) -> None:
    """Raise unless both are equal, naming the first difference."""
    if list(got) == list(wanted):
        return
    length = min(len(got), len(wanted))
    place = next((i for i in range(length) if got[i] != wanted[i]), length)
    pair = [str(values[place]) if place < len(values) else "nothing" for values in (got, wanted)]
    raise Broken(f"page_manager: {rule}: must have {pair[1]} at index {place}, got {pair[0]}")
