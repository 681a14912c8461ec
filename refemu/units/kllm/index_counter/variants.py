"""Variants of the decisions of index_counter."""

from typing import Any

from refemu.units.declaration import Changes
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.variant import Variant, overriding


def _invalid_is_zero(old: IndexCounter, self: IndexCounter, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
    indices = [index if used else 0 for index, used in zip(q, valid, strict=True)]
    return old.count(clear, tuple(indices), (1,) * self.lanes, *amount)


_device = overriding(IndexCounter)
VARIANTS: tuple[Variant, ...] = (
    _device("D-kllm-13: an excluded position counts as index 0", count=_invalid_is_zero),
    _device(
        "D-kllm-13: an excluded position counts",
        count=lambda old, self, clear, q, valid, *amount: old.count(clear, q, (1,) * self.lanes, *amount),
    ),
)
