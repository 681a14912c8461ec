"""Variants of the decisions of bfp_aligner."""

from refemu.units.harmonia.bfp_aligner import BfpAligner
from refemu.units.harmonia.variants import alignment
from refemu.units.variant import Variant, choices, overriding

VARIANTS: tuple[Variant, ...] = (
    *alignment.variants(BfpAligner),
    overriding(BfpAligner)(
        "D-harmonia-2: a rounded magnitude that carries out wraps",
        _fitted=lambda self, magnitude, m: magnitude & ((1 << m) - 1),
    ),
    *choices("D-harmonia-2", "rounding", "truncate"),
    *choices("D-harmonia-5", "special", "error", "hw", "saturate"),
)
