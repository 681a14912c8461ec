"""Variants of the decisions of v_grouper."""

from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith.rounding import shift_round
from refemu.units.harmonia.v_grouper import Codes, VGrouper
from refemu.units.harmonia.v_grouper.v_grouper import _codes
from refemu.units.variant import Variant, choices, overriding


def _from_one(old: VGrouper, self: VGrouper, codes: Codes, count: int, full: bool) -> dict[str, Any]:
    return old._shown(codes, count, full) | {"exponent": tuple(max(field, 1) for field in codes.exponent)}


def _when_full(old: VGrouper, self: VGrouper, codes: Codes, count: int, full: bool) -> dict[str, Any]:
    if full:
        return old._shown(codes, count, full)
    nothing = tuple((0,) * self.channels for _ in range(count))
    return old._shown(Codes(nothing, nothing, (0,) * self.channels), count, full)


def _rounded(self: VGrouper, stored: Codes, row: tuple[int, ...]) -> Codes:
    new = _codes(self.format.encode(np.array([row], np.uint16), 0, bits=True))
    top = np.maximum(stored.exponent, new.exponent)
    magnitudes = [_raised(self, codes, top) for codes in (stored, new)]
    return Codes(stored.sign + new.sign, magnitudes[0] + magnitudes[1], tuple(top.tolist()))


def _raised(self: VGrouper, codes: Codes, top: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Magnitudes under the exponents `top`."""
    places = np.maximum(top, 1) - np.maximum(codes.exponent, 1)
    rounded = shift_round(np.array(codes.mantissa), places, "half_even")
    return tuple(map(tuple, np.minimum(rounded, (1 << self.high) - 1).tolist()))


_device = overriding(VGrouper)
VARIANTS: tuple[Variant, ...] = (
    _device(
        "D-harmonia-1: the mantissa bits count the sign",
        format=lambda old, self: replace(old.format, mantissa_bits=self.high - 1),
    ),
    *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
    _device("D-harmonia-3: a group of zeros and subnormals has exponent 1", _shown=_from_one),
    _device("D-harmonia-4: subnormals are flushed", format=lambda old, self: replace(old.format, subnormals="flush")),
    _device(
        "D-harmonia-6: a magnitude of 0 has sign 0", format=lambda old, self: replace(old.format, zero_sign="canonical")
    ),
    _device("D-harmonia-20: a group has codes only when it is full", _shown=_when_full),
    _device("D-harmonia-20: stored magnitudes are shifted, rounded to even", _shifts=lambda self: True, _grow=_rounded),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-33": "How the rows of the residual are stored changes counts of bits only: under truncation an 8-bit "
    "code of a row, under its own exponent, gives the same codes later as the FP16 words."
}
