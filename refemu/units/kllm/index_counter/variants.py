"""Other answers to the decisions of index_counter."""

from typing import Any

from refemu.units.alternative import Alternative
from refemu.units.declared import Changes
from refemu.units.kllm.index_counter import IndexCounter


class InvalidIsZero(IndexCounter):
    """A position that is left out counts as index 0."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        indices = [index if used else 0 for index, used in zip(q, valid, strict=True)]
        return super().count(clear, tuple(indices), (1,) * self.lanes, *amount)


class ValidIgnored(IndexCounter):
    """Every position counts."""

    def count(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        return super().count(clear, q, (1,) * self.lanes, *amount)


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-kllm-13", "a position that is left out counts as index 0", variant=InvalidIsZero),
    Alternative("D-kllm-13", "a position that is left out counts", variant=ValidIgnored),
)
