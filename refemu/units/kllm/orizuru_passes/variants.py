"""Variants of the decisions of orizuru_passes."""

from typing import Any

from refemu.units.kllm.orizuru import levels
from refemu.units.kllm.orizuru_passes import OrizuruPasses
from refemu.units.kllm.orizuru_passes.orizuru_passes import Ends
from refemu.units.variant import Variant, overriding


def _in_turn(old: OrizuruPasses, self: OrizuruPasses, *chunks: Any) -> Ends:
    ends = old._pass(*chunks)
    if chunks[-1]:
        last = self._counts[-1]
        self._counts[-1] = last._replace(cycles=2 * last.cycles, passes=2)
    return ends


def _whole_tree(old: OrizuruPasses, self: OrizuruPasses, *chunks: Any) -> Ends:
    ends, above = old._pass(*chunks), levels(self.inputs)
    self._counts[-1] = self._counts[-1]._replace(cycles=above + self.k * (1 + above))
    return ends


_device = overriding(OrizuruPasses)
VARIANTS: tuple[Variant, ...] = (
    _device(
        "D-kllm-60: the root of a chunk is not a candidate",
        _presented=lambda old, self, candidates: old._presented([chunk[: max(self.k, 1)] for chunk in candidates]),
    ),
    _device("D-kllm-60: candidates of the two trees take separate passes", _pass=_in_turn),
    _device(
        "D-kllm-61: candidates of a chunk come in the order of the token",
        _presented=lambda old, self, candidates: old._presented([sorted(chunk) for chunk in candidates]),
    ),
    _device("D-kllm-61: a short pass takes all levels of the tree", _pass=_whole_tree),
)
