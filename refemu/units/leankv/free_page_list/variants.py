"""Variants of the decisions of free_page_list."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.unit import Config
from refemu.units.variant import Variant


class OpenEnd(FreePageList):
    """`list_end` is where the next id will come: start and end are a half-open interval."""

    @property
    def end(self) -> int:
        return self.tail % self.pages


class Stack(FreePageList):
    """The last ids leave first: `list_start` is the top of a stack of free ids."""

    def recycle(self, ids: Any) -> None:
        pages = list(ids)
        super().recycle(pages)
        listed = self.free_ids()
        first = len(listed) - len(pages)
        for place, page in enumerate(listed[first:] + listed[:first], self.head):
            self._ring[place % self.pages] = page


def _never_empty(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    return {"free": np.where(result.free == 0, config["pages"], result.free).astype(result.free.dtype)}


def _never_full(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    return {"free": (result.free % config["pages"]).astype(result.free.dtype)}


VARIANTS: tuple[Variant, ...] = (
    Variant("D-leankv-37", "list_end is the place after the last id", unit_class=OpenEnd),
    Variant("D-leankv-37", "two bounds only: an empty list reads as full", answer=_never_empty),
    Variant("D-leankv-37", "two bounds only: a full list reads as empty", answer=_never_full),
    Variant("D-leankv-37", "the last ids leave first", unit_class=Stack),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-53": "an allocation of more pages than are free is invalid, so no row of a set has one",
}
