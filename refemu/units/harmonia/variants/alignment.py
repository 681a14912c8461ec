"""Variants of the decisions of the aligner, for the units that have one. [harmonia §IV-C, Fig. 14c]"""

from collections.abc import Sequence
from typing import Any

from refemu.units.harmonia.bfp_aligner import BfpAligner, Element
from refemu.units.harmonia.variants.parts import Find, variant
from refemu.units.stepping import Stepped
from refemu.units.variant import Variant, choices


class Narrow(BfpAligner):
    """m counts the sign: magnitudes have m - 1 bits."""

    def element(self, word: int, emax: int, m: int) -> Element:
        """Align one lane."""
        return super().element(word, emax, m - 1)


class Jamming(BfpAligner):
    """The last bit of an inexact magnitude is set."""

    def shifted(self, significand: int, shift: int, sign: int) -> int:
        """Round to odd."""
        return significand >> shift | int(significand & ((1 << shift) - 1) != 0)


class Up(BfpAligner):
    """An inexact magnitude rounds up."""

    def shifted(self, significand: int, shift: int, sign: int) -> int:
        """Round away from zero."""
        return -(-significand >> shift)


class Wrapping(BfpAligner):
    """A magnitude that carries out of m bits loses the carry."""

    def _fitted(self, magnitude: int, m: int) -> int:
        return magnitude & ((1 << m) - 1)


class Bare(BfpAligner):
    """Field 0 counts as 0: subnormals, and groups of them, shift by one more place."""

    def _distance(self, emax: int, field: int) -> int:
        return emax - field


PARTS: tuple[tuple[str, str, type[BfpAligner]], ...] = (
    ("D-harmonia-1", "m counts the sign", Narrow),
    ("D-harmonia-2", "magnitudes are rounded to odd", Jamming),
    ("D-harmonia-2", "magnitudes are rounded up", Up),
    ("D-harmonia-3", "exponent field 0 counts as 0", Bare),
)


def variants(unit: type[Stepped[Any]], find: Find) -> Sequence[Variant]:
    """Variants of a unit with an aligner: by options, and one for each of PARTS."""
    return (
        *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
        *choices("D-harmonia-4", "subnormals", "flush"),
        *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
        *(Variant(decision, says, unit_class=variant(unit, find, part)) for decision, says, part in PARTS),
    )
