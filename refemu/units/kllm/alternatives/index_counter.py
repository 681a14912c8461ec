"""Other answers to the decisions of index_counter."""

from typing import Any

from refemu.units.alternative import Alternative
from refemu.units.kllm.index_counter import IndexCounter, State
from refemu.units.ports import fields, lanes


class InvalidIsZero(IndexCounter):
    """A position that is left out counts as index 0."""

    def _open(self, clear: int, q: Any, valid: Any, *amount: Any) -> State:
        indices = [index if used else 0 for index, used in zip(fields(q), fields(valid), strict=True)]
        return super()._open(clear, lanes(indices), lanes([1] * self.lanes), *amount)


class ValidIgnored(IndexCounter):
    """Every position counts."""

    def _open(self, clear: int, q: Any, valid: Any, *amount: Any) -> State:
        return super()._open(clear, q, lanes([1] * self.lanes), *amount)


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-kllm-13", "a position that is left out counts as index 0", variant=InvalidIsZero),
    Alternative("D-kllm-13", "a position that is left out counts", variant=ValidIgnored),
)
