"""Variants of the decisions of bfp_accumulator."""

from refemu.units.harmonia.bfp_accumulator import Accumulator
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant, choices

VARIANTS: tuple[Variant, ...] = (
    *choices("D-harmonia-7", "partial", "fp16", "fp32"),
    *choices("D-harmonia-8", "product", "fp16"),
    *accumulation.variants(Accumulator, lambda device: device),
    *accumulation.ANSWERS,
)
