"""Variants of the decisions of olive_edp_clocked, and of the dot product unit inside it."""

from refemu.units.cycle_accurate import variants
from refemu.units.olive.olive_edp import variants as olive_edp
from refemu.units.olive.olive_edp_clocked import UNIT
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = variants(UNIT, olive_edp.VARIANTS)
