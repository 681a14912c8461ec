"""Variants of the decisions of score_quantizer."""

import numpy as np

from refemu.arith import fp16
from refemu.units.declaration import Changes
from refemu.units.kllm.score_quantizer import ScoreQuantizer
from refemu.units.ports import Lanes
from refemu.units.variant import Variant


class NotFolded(ScoreQuantizer):
    """The scales of V stay outside."""

    def fold(self, p: Lanes, v_scale: Lanes) -> Changes:
        return self._begun(fp16.values(np.array(p)))


class Floor(ScoreQuantizer):
    """Integers are rounded down."""

    def rounded(self, scores: np.ndarray, top: float) -> np.ndarray:
        return np.floor(scores * self.largest / top)


class HalfUp(ScoreQuantizer):
    """Ties are rounded up."""

    def rounded(self, scores: np.ndarray, top: float) -> np.ndarray:
        return (np.floor(2 * (scores * self.largest / top)) + 1) // 2


class PowerOfTwo(ScoreQuantizer):
    """The step is the maximum divided by 2**bits; the maximum itself saturates."""

    def rounded(self, scores: np.ndarray, top: float) -> np.ndarray:
        return np.minimum(np.rint(scores * (self.largest + 1) / top), self.largest)


class ZeroScale(ScoreQuantizer):
    """A row of zeros has the scale 0."""

    def quantize(self) -> Changes:
        zeros = self.state.top == 0 and not any(self.state.p)
        return {"scale": 0} if zeros else super().quantize()


VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-14", "the scales of V are not folded in", unit_class=NotFolded),
    Variant("D-kllm-15", "integers are rounded down", unit_class=Floor),
    Variant("D-kllm-15", "ties are rounded up", unit_class=HalfUp),
    Variant("D-kllm-15", "a step is the maximum divided by 2**bits", unit_class=PowerOfTwo),
    Variant("D-kllm-15", "a row of zeros has scale 0", unit_class=ZeroScale),
)
