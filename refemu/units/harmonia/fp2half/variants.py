"""Variants of the decisions of fp2half."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.variants import rounding
from refemu.units.variant import Variant, choices


def _rounds(half: Callable[[np.ndarray, Fp16Mode], np.ndarray]) -> type[Fp2Half]:
    """A unit that rounds float32 values by `half`, which takes values and the overflow rule of the unit."""

    class Other(Fp2Half):
        def _half(self, word: int) -> int:
            value, mode = np.uint32(word).view(np.float32), Fp16Mode(overflow="saturate" if self.saturate else "inf")
            return int(fp16.bits(half(np.asarray(value), mode)))

    return Other


Truncating = _rounds(lambda value, mode: fp16.to_f16(value, replace(mode, rounding="truncate")))
Flushing = _rounds(lambda value, mode: fp16.to_f16(value, replace(mode, subnormals="flush")))
HalfAway = _rounds(lambda value, mode: fp16.to_f16(rounding.to_nearest(value.astype(np.float64), "half_away"), mode))
HalfUp = _rounds(lambda value, mode: fp16.to_f16(rounding.to_nearest(value.astype(np.float64), "half_up"), mode))

VARIANTS: tuple[Variant, ...] = (
    *choices("D-harmonia-13", "saturate", False, True),
    Variant("D-arith-2", "values are truncated", unit_class=Truncating),
    Variant("D-arith-2", "ties go away from zero", unit_class=HalfAway),
    Variant("D-arith-2", "ties go up", unit_class=HalfUp),
    Variant("D-arith-2", "subnormal results are flushed", unit_class=Flushing),
)
