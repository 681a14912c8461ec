"""Variants of the decisions of score_quantizer."""

import numpy as np

from refemu.arith import fp16
from refemu.units import Changes, Lanes, Variant
from refemu.units.kllm.score_quantizer import ScoreQuantizer
from refemu.units.variant import replaces, variants_of


class Devices(ScoreQuantizer):
    """Methods of other designs."""

    @replaces("fold", "D-kllm-14", "the scales of V are not folded in")
    def not_folded(self, p: Lanes, v_scale: Lanes) -> Changes:
        return self._begun(fp16.values(np.array(p)))

    @replaces("rounded", "D-kllm-15", "integers are rounded down")
    def floor(self, scores: np.ndarray, top: float) -> np.ndarray:
        return np.floor(scores * self.largest / top)

    @replaces("rounded", "D-kllm-15", "ties are rounded up")
    def half_up(self, scores: np.ndarray, top: float) -> np.ndarray:
        return (np.floor(2 * (scores * self.largest / top)) + 1) // 2

    @replaces("rounded", "D-kllm-15", "a step is the maximum divided by 2**bits")
    def power_of_two(self, scores: np.ndarray, top: float) -> np.ndarray:
        return np.minimum(np.rint(scores * (self.largest + 1) / top), self.largest)

    @replaces("quantize", "D-kllm-15", "a row of zeros has scale 0")
    def zero_scale(self) -> Changes:
        zeros = self.state.top == 0 and not any(self.state.p)
        return {"scale": 0} if zeros else super().quantize()


VARIANTS: tuple[Variant, ...] = (*variants_of(Devices),)
