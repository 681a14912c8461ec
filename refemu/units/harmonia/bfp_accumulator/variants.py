"""Variants of the decisions of bfp_accumulator."""

from refemu.units.harmonia.bfp_accumulator import Accumulator
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = (*accumulation.variants(Accumulator), *accumulation.ANSWERS)
