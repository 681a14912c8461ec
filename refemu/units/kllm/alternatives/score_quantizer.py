"""Other answers to the decisions of score_quantizer."""

from dataclasses import replace

import numpy as np

from refemu.units.alternative import Alternative
from refemu.units.kllm.score_quantizer import ScoreQuantizer, State
from refemu.units.ports import fields, lanes


class NotFolded(ScoreQuantizer):
    """The scales of V stay outside."""

    def _fold(self, before: State) -> State:
        return before


class Floor(ScoreQuantizer):
    """Integers are rounded down."""

    def _quantize(self, before: State) -> State:
        after = super()._quantize(before)
        if before.top == 0:
            return after
        folded, top = self.scores(before)
        return replace(after, q=lanes([int(value) for value in np.floor(folded * self.largest / top).tolist()]))


class HalfUp(ScoreQuantizer):
    """Ties are rounded up."""

    def _quantize(self, before: State) -> State:
        after = super()._quantize(before)
        if before.top == 0:
            return after
        folded, top = self.scores(before)
        twice = np.floor(2 * (folded * self.largest / top))
        return replace(after, q=lanes([(int(value) + 1) // 2 for value in twice.tolist()]))


class PowerOfTwo(ScoreQuantizer):
    """The step is the maximum divided by 2**bits; the maximum itself saturates."""

    def _quantize(self, before: State) -> State:
        after, steps = super()._quantize(before), self.largest + 1
        if before.top == 0:
            return after
        folded, top = self.scores(before)
        q = np.minimum(np.rint(folded * steps / top), self.largest)
        return replace(after, q=lanes([int(value) for value in q.tolist()]))


class ZeroScale(ScoreQuantizer):
    """A row of zeros has the scale 0."""

    def _quantize(self, before: State) -> State:
        after = super()._quantize(before)
        return replace(after, scale=0) if before.top == 0 and not any(fields(before.p)) else after


ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("D-kllm-14", "the scales of V are not folded in", variant=NotFolded),
    Alternative("D-kllm-15", "integers are rounded down", variant=Floor),
    Alternative("D-kllm-15", "ties are rounded up", variant=HalfUp),
    Alternative("D-kllm-15", "a step is the maximum divided by 2**bits", variant=PowerOfTwo),
    Alternative("D-kllm-15", "a row of zeros has scale 0", variant=ZeroScale),
)
