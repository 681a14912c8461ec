"""Variants of the decisions of the aligner, for the units that have one. [harmonia §IV-C, Fig. 14c]"""

from collections.abc import Sequence
from typing import Any

from refemu.units.harmonia.bfp_aligner import BfpAligner
from refemu.units.stepping import Stepped
from refemu.units.variant import Variant, choices, of_part, overriding

_aligner = overriding(BfpAligner)
PARTS: tuple[Variant, ...] = (
    _aligner(
        "D-harmonia-1: m counts the sign", element=lambda old, self, word, emax, m: old.element(word, emax, m - 1)
    ),
    _aligner(
        "D-harmonia-2: magnitudes are rounded to odd",
        shifted=lambda self, x, shift, sign: x >> shift | int(x & ((1 << shift) - 1) != 0),
    ),
    _aligner("D-harmonia-2: magnitudes are rounded up", shifted=lambda self, x, shift, sign: -(-x >> shift)),
    # subnormals, and groups of them, shift by one more place
    _aligner("D-harmonia-3: exponent field 0 counts as 0", _distance=lambda self, emax, field: emax - field),
)


def variants(unit: type[Stepped[Any]]) -> Sequence[Variant]:
    """Variants of a unit with an aligner: by options, and one for each of PARTS."""
    return (
        *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
        *choices("D-harmonia-4", "subnormals", "flush"),
        *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
        *(PARTS if unit is BfpAligner else of_part(unit, "aligner", PARTS)),
    )
