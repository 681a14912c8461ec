"""Variants of the decisions of index_counter."""

from typing import Any

from refemu.units.declaration import Changes
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.variant import Variant


class InvalidIsZero(IndexCounter):
    """An excluded position counts as index 0."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        indices = [index if used else 0 for index, used in zip(q, valid, strict=True)]
        return super().count(clear, tuple(indices), (1,) * self.lanes, *amount)


class ValidIgnored(IndexCounter):
    """Every position counts."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        return super().count(clear, q, (1,) * self.lanes, *amount)


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-13", "an excluded position counts as index 0", unit_class=InvalidIsZero),
    Variant("D-kllm-13", "an excluded position counts", unit_class=ValidIgnored),
)
