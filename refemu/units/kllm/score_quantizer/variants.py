"""Variants of the decisions of score_quantizer."""

import numpy as np

from refemu.arith import fp16
from refemu.units import Changes, Variant
from refemu.units.kllm.score_quantizer import ScoreQuantizer
from refemu.units.variant import overriding


def _zero_scale(old: ScoreQuantizer, self: ScoreQuantizer) -> Changes:
    zeros = self.state.top == 0 and not any(self.state.p)
    return {"scale": 0} if zeros else old.quantize()


_device = overriding(ScoreQuantizer)
VARIANTS: tuple[Variant, ...] = (
    _device(
        "D-kllm-14: the scales of V are not folded in",
        fold=lambda self, p, v_scale: self._begun(fp16.values(np.array(p))),
    ),
    _device(
        "D-kllm-15: integers are rounded down", rounded=lambda self, scores, top: np.floor(scores * self.largest / top)
    ),
    _device(
        "D-kllm-15: ties are rounded up",
        rounded=lambda self, scores, top: (np.floor(2 * (scores * self.largest / top)) + 1) // 2,
    ),
    _device(
        "D-kllm-15: a step is the maximum divided by 2**bits",
        rounded=lambda self, scores, top: np.minimum(np.rint(scores * (self.largest + 1) / top), self.largest),
    ),
    _device("D-kllm-15: a row of zeros has scale 0", quantize=_zero_scale),
)
