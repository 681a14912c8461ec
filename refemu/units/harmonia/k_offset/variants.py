"""Variants of the decisions of k_offset."""

from collections.abc import Sequence

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units.declaration import Changes
from refemu.units.harmonia.k_offset import KOffsetGenerator
from refemu.units.harmonia.variants import rounding
from refemu.units.ports import Lanes
from refemu.units.variant import Variant, choices


class LastToken(KOffsetGenerator):
    """The last token of equal magnitudes stays."""

    def _exceeds(self, word: int, peak: int) -> bool:
        return word & 0x7FFF >= peak


class HigherChannel(KOffsetGenerator):
    """The higher channel of equal peaks is chosen."""

    def _best(self, left: Sequence[int]) -> int:
        peak = self.state.peak
        return max(left, key=lambda channel: (peak[channel], channel))


class WindowAsItIs(KOffsetGenerator):
    """Tokens of the window are not shifted."""

    def _shifted(self, row: tuple[int, ...], gated: int) -> list[int]:
        return super()._shifted(row, gated) if gated else list(row)


class OnlyWindow(KOffsetGenerator):
    """Tokens after the window are not shifted."""

    def _shifted(self, row: tuple[int, ...], gated: int) -> list[int]:
        return list(row) if gated else super()._shifted(row, gated)


class Following(KOffsetGenerator):
    """Tokens after the window are tracked too, and the offsets of the chosen channels follow."""

    def apply(self, k: Lanes, valid: int, last: int) -> Changes:
        """A token updates the offsets that are subtracted from it."""
        if not valid:
            return super().apply(k, valid, last)
        peaks = self._peaks(k)
        columns = zip(peaks["peak"], peaks["negative"], self.state.selected, strict=True)
        moved = {**peaks, "offset": tuple([self.half(size | sign << 15) * each for size, sign, each in columns])}
        self._commit(self.state.event, (), moved)
        return super().apply(k, valid, last)


class Saturating(KOffsetGenerator):
    """A difference beyond FP16 becomes 65504 of its sign."""

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        return fp16.narrow(rounding.saturated(super()._rounded(exact)))


class Truncating(KOffsetGenerator):
    """Halves and differences are truncated to FP16."""

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        return fp16.to_f16(exact, Fp16Mode(rounding="truncate"))


class HalfAway(KOffsetGenerator):
    """Ties of halves and differences go away from zero."""

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        return fp16.to_f16(rounding.to_nearest(exact, "half_away"))


class HalfUp(KOffsetGenerator):
    """Ties of halves and differences go up."""

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        return fp16.to_f16(rounding.to_nearest(exact, "half_up"))


class Flushing(KOffsetGenerator):
    """Subnormal halves and differences become 0."""

    def _rounded(self, exact: np.ndarray) -> np.ndarray:
        return fp16.narrow(rounding.flushed(super()._rounded(exact)))


VARIANTS: tuple[Variant, ...] = (
    Variant("D-harmonia-13", "differences beyond FP16 saturate", unit_class=Saturating),
    *choices("D-harmonia-23", "offset_sign", "unsigned"),
    Variant("D-harmonia-23", "the last token of equal magnitudes", unit_class=LastToken),
    *choices("D-harmonia-24", "offset_k", 1, 2, 3),
    *choices("D-harmonia-24", "offset_scope", "layer"),
    Variant("D-harmonia-24", "the higher channel of equal peaks", unit_class=HigherChannel),
    Variant("D-harmonia-26", "tokens of the window are not shifted", unit_class=WindowAsItIs),
    Variant("D-harmonia-26", "only tokens of the window are shifted", unit_class=OnlyWindow),
    Variant("D-harmonia-26", "later tokens move peaks and offsets", unit_class=Following),
    Variant("D-arith-2", "halves and differences are truncated", unit_class=Truncating),
    Variant("D-arith-2", "ties go away from zero", unit_class=HalfAway),
    Variant("D-arith-2", "ties go up", unit_class=HalfUp),
    Variant("D-arith-2", "subnormal results are flushed", unit_class=Flushing),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-25": "The unit cannot know whether keys were rotated: that is wiring in harmonia_core, which has "
    "this variant.",
}
