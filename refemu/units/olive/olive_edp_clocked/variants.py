"""Variants of the decisions of olive_edp_clocked, and of the dot product unit inside it."""

from refemu.units.olive.olive_edp import variants as olive_edp
from refemu.units.olive.olive_edp_clocked import UNIT
from refemu.units.variant import Variant
from refemu.units.variants.cycle_accurate import inner, variants

VARIANTS: tuple[Variant, ...] = (*variants(UNIT), *inner(UNIT, olive_edp.VARIANTS))
