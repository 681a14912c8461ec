"""Variants of the decisions of orizuru_passes."""

from collections.abc import Sequence

from refemu.units.kllm.orizuru import levels
from refemu.units.kllm.orizuru_passes import OrizuruPasses
from refemu.units.kllm.orizuru_passes.orizuru_passes import Ends
from refemu.units.variant import Variant


class Rootless(OrizuruPasses):
    """Only popped elements enter the last pass, whose roots show at best the k + 1st of them."""

    def _presented(self, candidates: list[list[int]]) -> list[int]:
        return super()._presented([chunk[: max(self.k, 1)] for chunk in candidates])


class InTurn(OrizuruPasses):
    """Candidates of the max tree and of the min tree take separate passes."""

    def _pass(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        ends = super()._pass(words, top, low, apart)
        if apart:
            last = self._counts[-1]
            self._counts[-1] = last._replace(cycles=2 * last.cycles, passes=2)
        return ends


class ByPosition(OrizuruPasses):
    """The candidates of a chunk are presented in the order of the token."""

    def _presented(self, candidates: list[list[int]]) -> list[int]:
        return super()._presented([sorted(chunk) for chunk in candidates])


class WholeTree(OrizuruPasses):
    """Every pass uses all levels of the tree and pops k times, even with few values."""

    def _pass(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        ends, above = super()._pass(words, top, low, apart), levels(self.inputs)
        self._counts[-1] = self._counts[-1]._replace(cycles=above + self.k * (1 + above))
        return ends


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-60", "the root of a chunk is not a candidate", unit_class=Rootless),
    Variant("D-kllm-60", "candidates of the two trees take separate passes", unit_class=InTurn),
    Variant("D-kllm-61", "candidates of a chunk come in the order of the token", unit_class=ByPosition),
    Variant("D-kllm-61", "a short pass takes all levels of the tree", unit_class=WholeTree),
)
