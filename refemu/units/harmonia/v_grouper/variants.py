"""Variants of the decisions of v_grouper."""

import dataclasses
from typing import Any

import numpy as np

from refemu.arith.rounding import shift_round
from refemu.formats import Bfp
from refemu.units.declaration import constant
from refemu.units.harmonia.v_grouper import Codes, VGrouper
from refemu.units.harmonia.v_grouper.v_grouper import _codes
from refemu.units.variant import Variant, choices


class Narrow(VGrouper):
    """Magnitudes have one bit less."""

    @constant
    def format(self) -> Bfp:
        return dataclasses.replace(super().format, mantissa_bits=self.high - 1)


class Flushing(VGrouper):
    """Subnormals count as 0."""

    @constant
    def format(self) -> Bfp:
        return dataclasses.replace(super().format, subnormals="flush")


class Canonical(VGrouper):
    """A magnitude of 0 has sign 0."""

    @constant
    def format(self) -> Bfp:
        return dataclasses.replace(super().format, zero_sign="canonical")


class FromOne(VGrouper):
    """Shared exponents are at least 1."""

    def _shown(self, codes: Codes, count: int, full: bool) -> dict[str, Any]:
        at_least = tuple(max(field, 1) for field in codes.exponent)
        return super()._shown(codes, count, full) | {"exponent": tuple(at_least)}


class WhenFull(VGrouper):
    """A group is converted when it is full, and has no codes before."""

    def _shown(self, codes: Codes, count: int, full: bool) -> dict[str, Any]:
        if full:
            return super()._shown(codes, count, full)
        nothing = tuple((0,) * self.channels for _ in range(count))
        return super()._shown(Codes(nothing, nothing, (0,) * self.channels), count, full)


class Rounding(VGrouper):
    """Stored magnitudes are shifted when an exponent rises, and rounded to even each time."""

    @property
    def _shifts(self) -> bool:
        return True

    def _grow(self, stored: Codes, row: tuple[int, ...]) -> Codes:
        new = _codes(self.format.encode(np.array([row], np.uint16), 0, bits=True))
        top = np.maximum(stored.exponent, new.exponent)
        magnitudes = [self._raised(codes, top) for codes in (stored, new)]
        return Codes(stored.sign + new.sign, magnitudes[0] + magnitudes[1], tuple(top.tolist()))

    def _raised(self, codes: Codes, top: np.ndarray) -> tuple[tuple[int, ...], ...]:
        """Magnitudes under the exponents `top`."""
        places = np.maximum(top, 1) - np.maximum(codes.exponent, 1)
        rounded = shift_round(np.array(codes.mantissa), places, "half_even")
        return tuple(map(tuple, np.minimum(rounded, (1 << self.high) - 1).tolist()))


VARIANTS: tuple[Variant, ...] = (
    Variant("D-harmonia-1", "the mantissa bits count the sign", unit_class=Narrow),
    *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
    Variant("D-harmonia-3", "a group of zeros and subnormals has exponent 1", unit_class=FromOne),
    Variant("D-harmonia-4", "subnormals are flushed", unit_class=Flushing),
    Variant("D-harmonia-6", "a magnitude of 0 has sign 0", unit_class=Canonical),
    Variant("D-harmonia-20", "a group has codes only when it is full", unit_class=WhenFull),
    Variant("D-harmonia-20", "stored magnitudes are shifted, rounded to even", unit_class=Rounding),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-33": "How the rows of the residual are stored changes counts of bits only: under truncation an 8-bit "
    "code of a row, under its own exponent, gives the same codes later as the FP16 words.",
}
