"""Pages of requests whose manager is checked after every call: where each page is, and in which order pages move.

Paper: [leankv §5.2, §5.3, Fig. 5]. Nothing here is the manager's own: a list of free pages loses pages at its front and
gains them at its end, in the order of requests, layers, heads, and high before low pages (D-leankv-38). After a step
the pages of the requests are checked, and after other calls and every PERIOD steps those of the whole memory, which
has millions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refemu.models.schemes.leankv.serving.pages import Store

PERIOD = 1000  #: steps after which all pages are checked


class Broken(RuntimeError):
    """A memory manager broke an invariant."""


@dataclass(frozen=True, eq=False)
class Sections:
    """Pages of heads: high ones from the start of a row, low ones from its end."""

    cells: np.ndarray  #: (heads, L) pages
    used: np.ndarray  #: (heads, 2) number of high and of low pages

    def run(self, head: int, section: int) -> np.ndarray:
        """Pages of a section, in their order."""
        row = self.cells[head, :: 1 - 2 * section]
        return row[: self.used[head, section]]

    def pages(self) -> np.ndarray:
        """All pages, head by head."""
        runs = [self.run(head, section) for head in range(len(self.used)) for section in range(2)]
        return np.concatenate([np.empty(0, np.int64), *runs])

    def new(self, before: "Sections") -> np.ndarray:
        """Pages that were not there `before`, head by head."""
        grown = np.flatnonzero((self.used != before.used).any(axis=1)).tolist()
        runs = [self.run(head, part)[before.used[head, part] :] for head in grown for part in range(2)]
        return np.concatenate([np.empty(0, np.int64), *runs])

    def moved(self, before: "Sections") -> np.ndarray:
        """Places of `before` with another page now: bool (heads, L)."""
        columns = np.arange(self.cells.shape[1])
        high, low = before.used[:, :1], before.used[:, 1:]
        held = (columns < high) | (columns >= len(columns) - low)
        moved: np.ndarray = held & (self.cells != before.cells)
        return moved


class CheckedStore(Store):
    """A store that raises `Broken` for a manager that loses, doubles or misplaces a page."""

    _free: np.ndarray | None = None  # the list of free pages as it must be; None: not read yet
    _last: tuple[list[int], Sections] | None = None  # requests of the last step, and their pages after it
    _count = 0  # steps

    def admit(self, prompts: Mapping[int, int]) -> None:
        """As `Store.admit`; a head keeps the first pages of its prompt, and what it frees goes to the end."""
        free = self._listed()
        super().admit(prompts)
        shape, at, held = self.shape, 0, self._sections(list(prompts))
        prompt_pages = list[np.ndarray]()
        for tokens in prompts.values():
            for _ in range(shape.layers * shape.heads):
                count = -(-tokens // shape.high_tokens) + shape.reserve
                prompt_pages.append(free[at : at + count])
                at += count
        rest = list[np.ndarray]()
        for head, pages in enumerate(prompt_pages):
            got = np.concatenate([held.run(head, 0), held.run(head, 1)])
            lacking = max(len(got) - len(pages), 0)
            wanted = np.concatenate([pages, free[at : at + lacking]])
            at += lacking
            _require("a prompt keeps its first pages", got, wanted[: len(got)])
            rest.append(wanted[len(got) :])
        self._require_all("the list after a prompt", np.concatenate([free[at:], *rest]))

    def step(self, names: Sequence[int]) -> None:
        """As `Store.step`; heads take pages from the front of the list."""
        free, last = self._listed(), self._last
        before = last[1] if last and last[0] == names else self._sections(names)
        super().step(names)
        after = self._sections(names)
        new = after.new(before)
        _require("a step takes the first free pages", new, free[: len(new)])
        free = free[len(new) :]
        _require("number of free pages after a step", np.array([self.manager.free]), np.array([len(free)]))
        places = np.argwhere(after.moved(before))
        _require("heads whose pages a step exchanges", places[:, 0], places[:0, 0])
        self._require_sizes(names, after.used)
        self._count += 1
        if self._count % PERIOD:
            self._free, self._last = free, (list(names), after)
        else:
            self._require_all("the list after a step", free)

    def finish(self, names: Sequence[int]) -> None:
        """As `Store.finish`; all pages go to the end of the list."""
        free, held = self._listed(), self._sections(names).pages()
        super().finish(names)
        self._require_all("the list after an end", np.concatenate([free, held]))

    def require_names(self, running: Sequence[int]) -> None:
        """Raise `Broken` if a request that does not run has pages, or one that runs has none."""
        _require(
            "requests with pages",
            *(np.array(sorted(each), np.int64) for each in (self.manager.requests.table, running)),
        )

    def _listed(self) -> np.ndarray:
        """The list of free pages before a call."""
        if self._free is None:
            self._free = np.array(self.manager.free_ids(), np.int64)
        return self._free

    def _sections(self, names: Sequence[int]) -> Sections:
        cells = self.manager.cells(names).reshape(-1, self.shape.length)
        return Sections(cells, self.manager.used(names).reshape(-1, 2))

    def _require_all(self, rule: str, free: np.ndarray) -> None:
        """Every page is in one place, the list is `free`, and every section has as many pages as its tokens need."""
        self._free, self._last = np.array(self.manager.free_ids(), np.int64), None
        _require(rule, self._free, free)
        names = list(self.manager.requests.table)
        held = self._sections(names)
        places = np.bincount(np.concatenate([held.pages(), self._free]), minlength=self.shape.pages)
        _require("places of pages", places, np.ones(self.shape.pages, np.int64))
        self._require_sizes(names, held.used)

    def _require_sizes(self, names: Sequence[int], used: np.ndarray) -> None:
        """Every section has as many pages as its tokens need."""
        sizes = np.array([self.shape.high_tokens, self.shape.low_tokens or 1])
        pages = -(-self.manager.lengths(names) // sizes)
        _require("pages of tokens", used.ravel(), pages.ravel())


def _require(rule: str, got: np.ndarray, wanted: np.ndarray) -> None:
    """Raise unless both are equal, naming the first difference."""
    if np.array_equal(got, wanted):
        return
    length = min(len(got), len(wanted))
    differing = np.flatnonzero(got[:length] != wanted[:length])
    place = int(differing[0]) if differing.size else length
    pair = [str(values[place]) if place < len(values) else "nothing" for values in (got, wanted)]
    raise Broken(f"page_manager: {rule}: must have {pair[1]} at index {place}, got {pair[0]}")
