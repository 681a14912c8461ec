"""Variants of the decisions of mmaovp_clocked, and of the tensor core inside it."""

from refemu.units.cycle_accurate import variants
from refemu.units.olive.mmaovp import variants as mmaovp
from refemu.units.olive.mmaovp_clocked import UNIT
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = variants(UNIT, mmaovp.VARIANTS)
