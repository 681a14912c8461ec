"""Variants of the decisions of orizuru_passes."""

from collections.abc import Sequence

from refemu.units.kllm.orizuru import levels
from refemu.units.kllm.orizuru_passes import OrizuruPasses
from refemu.units.kllm.orizuru_passes.orizuru_passes import Ends
from refemu.units.variant import Variant, replaces, variants_of


class Devices(OrizuruPasses):
    """Methods of other designs."""

    @replaces("_presented", "D-kllm-60", "the root of a chunk is not a candidate")
    def rootless(self, candidates: list[list[int]]) -> list[int]:
        return super()._presented([chunk[: max(self.k, 1)] for chunk in candidates])

    @replaces("_pass", "D-kllm-60", "candidates of the two trees take separate passes")
    def in_turn(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        ends = super()._pass(words, top, low, apart)
        if apart:
            last = self._counts[-1]
            self._counts[-1] = last._replace(cycles=2 * last.cycles, passes=2)
        return ends

    @replaces("_presented", "D-kllm-61", "candidates of a chunk come in the order of the token")
    def by_position(self, candidates: list[list[int]]) -> list[int]:
        return super()._presented([sorted(chunk) for chunk in candidates])

    @replaces("_pass", "D-kllm-61", "a short pass takes all levels of the tree")
    def whole_tree(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        ends, above = super()._pass(words, top, low, apart), levels(self.inputs)
        self._counts[-1] = self._counts[-1]._replace(cycles=above + self.k * (1 + above))
        return ends


VARIANTS: tuple[Variant, ...] = (*variants_of(Devices),)
