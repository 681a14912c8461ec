"""Variants of the decisions of free_page_list."""

from typing import Any

import numpy as np

from refemu.units.leankv.free_page_list import FreePageList
from refemu.units.variant import Variant, overriding


def _stacked(old: FreePageList, self: FreePageList, ids: Any) -> None:
    """`list_start` is the top of a stack of free ids."""
    pages = list(ids)
    old.recycle(pages)
    listed = self.free_ids()
    first = len(listed) - len(pages)
    for place, page in enumerate(listed[first:] + listed[:first], self.head):
        self._ring[place % self.pages] = page


_device = overriding(FreePageList)
VARIANTS: tuple[Variant, ...] = (
    _device("D-leankv-37: list_end is the place after the last id", end=lambda self: self.tail % self.pages),
    Variant(
        "D-leankv-37",
        "two bounds only: an empty list reads as full",
        answer=lambda config, inputs, result: {
            "free": np.where(result.free == 0, config["pages"], result.free).astype(result.free.dtype)
        },
    ),
    Variant(
        "D-leankv-37",
        "two bounds only: a full list reads as empty",
        answer=lambda config, inputs, result: {"free": (result.free % config["pages"]).astype(result.free.dtype)},
    ),
    _device("D-leankv-37: the last ids leave first", recycle=_stacked),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-53": "an allocation of more pages than are free is invalid, so no row of a set has one"
}
