"""Variants of the decisions of mmaovp_clocked, and of the tensor core inside it."""

from refemu.units.olive.mmaovp import variants as mmaovp
from refemu.units.olive.mmaovp_clocked import UNIT
from refemu.units.variant import Variant
from refemu.units.variants.cycle_accurate import inner, variants

VARIANTS: tuple[Variant, ...] = (*variants(UNIT), *inner(UNIT, mmaovp.VARIANTS))
