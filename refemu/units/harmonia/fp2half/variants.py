"""Other answers to the decisions of fp2half."""

from dataclasses import replace

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units.alternative import Alternative, choices
from refemu.units.declared import constant
from refemu.units.harmonia.fp2half import Fp2Half
from refemu.units.harmonia.variants import rounding


class Truncating(Fp2Half):
    """Values are cut off toward zero."""

    @constant
    def mode(self) -> Fp16Mode:
        return replace(super().mode, rounding="truncate")


class Flushing(Fp2Half):
    """Subnormal values become 0."""

    @constant
    def mode(self) -> Fp16Mode:
        return replace(super().mode, subnormals="flush")


class HalfAway(Fp2Half):
    """Ties go away from zero."""

    def _half(self, column: np.ndarray) -> np.ndarray:
        return fp16.to_f16(rounding.to_nearest(column.astype(np.float64), "half_away"), self.mode)


class HalfUp(Fp2Half):
    """Ties go up."""

    def _half(self, column: np.ndarray) -> np.ndarray:
        return fp16.to_f16(rounding.to_nearest(column.astype(np.float64), "half_up"), self.mode)


ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-harmonia-13", "saturate", False, True),
    Alternative("D-arith-2", "values are truncated", variant=Truncating),
    Alternative("D-arith-2", "ties go away from zero", variant=HalfAway),
    Alternative("D-arith-2", "ties go up", variant=HalfUp),
    Alternative("D-arith-2", "subnormal results are flushed", variant=Flushing),
)
