"""Variants of the decisions of fp2half."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.variants import rounding
from refemu.units.variant import Variant, choices, overriding


def _rounds(says: str, half: Callable[[np.ndarray, Fp16Mode], np.ndarray]) -> Variant:
    """A unit that rounds float32 values by `half`, which takes values and the overflow rule of the unit."""

    def rounded(self: Fp2Half, word: int) -> int:
        value, mode = np.uint32(word).view(np.float32), Fp16Mode(overflow="saturate" if self.saturate else "inf")
        return int(fp16.bits(half(np.asarray(value), mode)))

    return overriding(Fp2Half)(f"D-arith-2: {says}", _half=rounded)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-harmonia-13", "saturate", False, True),
    _rounds("values are truncated", lambda x, mode: fp16.to_f16(x, replace(mode, rounding="truncate"))),
    _rounds(
        "ties go away from zero",
        lambda x, mode: fp16.to_f16(rounding.to_nearest(x.astype(np.float64), "half_away"), mode),
    ),
    _rounds("ties go up", lambda x, mode: fp16.to_f16(rounding.to_nearest(x.astype(np.float64), "half_up"), mode)),
    _rounds("subnormal results are flushed", lambda x, mode: fp16.to_f16(x, replace(mode, subnormals="flush"))),
)
