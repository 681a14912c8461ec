"""Variants of the decisions of index_counter."""

from typing import Any

from refemu.units.declaration import Changes
from refemu.units.kllm.index_counter import IndexCounter
from refemu.units.variant import Variant, replaces, variants_of


class Devices(IndexCounter):
    """Methods of other designs."""

    @replaces("count", "D-kllm-13", "an excluded position counts as index 0")
    def invalid_is_zero(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        indices = [index if used else 0 for index, used in zip(q, valid, strict=True)]
        return super().count(clear, tuple(indices), (1,) * self.lanes, *amount)

    @replaces("count", "D-kllm-13", "an excluded position counts")
    def valid_ignored(self, clear: int, q: Any, valid: Any, *amount: Any) -> Changes:
        return super().count(clear, q, (1,) * self.lanes, *amount)


VARIANTS: tuple[Variant, ...] = (*variants_of(Devices),)
