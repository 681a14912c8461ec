"""Variants of the decisions of k_offset."""

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.units import Changes, Lanes
from refemu.units.harmonia.k_offset import KOffsetGenerator
from refemu.units.harmonia.variants import rounding
from refemu.units.variant import Variant, choices, overriding


def _following(old: KOffsetGenerator, self: KOffsetGenerator, k: Lanes, valid: int, last: int) -> Changes:
    """A token updates the offsets that are subtracted from it."""
    if not valid:
        return old.apply(k, valid, last)
    peaks = self._peaks(k)
    columns = zip(peaks["peak"], peaks["negative"], self.state.selected, strict=True)
    moved = {**peaks, "offset": tuple([self.half(size | sign << 15) * each for size, sign, each in columns])}
    self._commit(self.state.event, (), moved)
    return old.apply(k, valid, last)


_device = overriding(KOffsetGenerator)
VARIANTS: tuple[Variant, ...] = (
    _device(
        "D-harmonia-13: differences beyond FP16 saturate",
        _rounded=lambda old, self, exact: fp16.narrow(rounding.saturated(old._rounded(exact))),
    ),
    *choices("D-harmonia-23", "offset_sign", "unsigned"),
    _device(
        "D-harmonia-23: the last token of equal magnitudes", _exceeds=lambda self, word, peak: word & 0x7FFF >= peak
    ),
    *choices("D-harmonia-24", "offset_k", 1, 2, 3),
    *choices("D-harmonia-24", "offset_scope", "layer"),
    _device(
        "D-harmonia-24: the higher channel of equal peaks",
        _best=lambda self, left: max(left, key=lambda channel: (self.state.peak[channel], channel)),
    ),
    _device(
        "D-harmonia-26: tokens of the window are not shifted",
        _shifted=lambda old, self, row, gated: old._shifted(row, gated) if gated else list(row),
    ),
    _device(
        "D-harmonia-26: only tokens of the window are shifted",
        _shifted=lambda old, self, row, gated: list(row) if gated else old._shifted(row, gated),
    ),
    _device("D-harmonia-26: later tokens move peaks and offsets", apply=_following),
    _device(
        "D-arith-2: halves and differences are truncated",
        _rounded=lambda self, exact: fp16.to_f16(exact, Fp16Mode(rounding="truncate")),
    ),
    _device(
        "D-arith-2: ties go away from zero",
        _rounded=lambda self, exact: fp16.to_f16(rounding.to_nearest(exact, "half_away")),
    ),
    _device("D-arith-2: ties go up", _rounded=lambda self, exact: fp16.to_f16(rounding.to_nearest(exact, "half_up"))),
    _device(
        "D-arith-2: subnormal results are flushed",
        _rounded=lambda old, self, exact: fp16.narrow(rounding.flushed(old._rounded(exact))),
    ),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-25": "The unit cannot know whether keys were rotated: that is wiring in harmonia_core, which has "
    "this variant."
}
