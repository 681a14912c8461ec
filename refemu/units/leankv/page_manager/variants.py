"""Variants of the decisions of page_manager, and of its list and its prefix sum."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from refemu.units.leankv.page_manager import Moved, PageManager
from refemu.units.variant import Variant, choices


class Descending(PageManager):
    """Every prefix sum runs from the last region to the first: low before high, and the last head first."""

    def _allocated(self, counts: Sequence[int]) -> Moved:
        return _turned(super()._allocated(counts[::-1]))

    def _recycled(self, parts: Sequence[Sequence[int]], counts: Sequence[int] | None = None) -> Moved:
        sizes = [len(part) for part in parts] if counts is None else list(counts)
        regions = _regions(tuple(chain.from_iterable(parts)), sizes)
        return _turned(super()._recycled(regions[::-1]))


def _regions(ids: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """The ids of every region."""
    regions, first = list[Sequence[int]](), 0
    for size in sizes:
        regions.append(ids[first : first + size])
        first += size
    return regions


def _turned(moved: Moved) -> Moved:
    """The regions in reverse order."""
    regions = _regions(moved.ids, moved.counts)
    return Moved(moved.counts[::-1], moved.prefix[::-1], tuple(chain.from_iterable(regions[::-1])))


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-34", "lazy_pages", True, False),
    *choices("D-leankv-35", "reserve_low", 0, 1),
    Variant(
        "D-leankv-37",
        "list_end is the place after the last free page",
        answer=lambda config, inputs, result: {
            "list_end": ((result.list_end.astype(np.int64) + 1) % config["pages"]).astype(result.list_end.dtype)
        },
    ),
    Variant("D-leankv-38", "the last head first, low before high", unit_class=Descending),
    Variant(
        "D-leankv-39",
        "Blelloch's network: sums are exclusive",
        answer=lambda config, inputs, result: {"prefix": result.prefix - result.counts},
    ),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-36": "page ids do not depend on the length of an entry: another length changes only which calls "
    "overflow it, and these are invalid, so no row has them",
    "D-leankv-66": "events inside a call end with the same registers, and a row of a set is a whole call",
    "D-leankv-40": "pages are split and recycled within the runs: no output reads a cell that is no longer used, "
    "only the register st.cells shows it",
    "D-leankv-53": "a call that needs more pages than are free is invalid, so no row of a set has one",
    "D-leankv-55": "software computes a ratio of memory from the lengths; no port shows it",
}
