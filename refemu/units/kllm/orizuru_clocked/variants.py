"""Variants of the decisions of orizuru_clocked, and of the trees inside it."""

from refemu.units.kllm.orizuru import variants as orizuru
from refemu.units.kllm.orizuru_clocked import UNIT
from refemu.units.variant import Variant
from refemu.units.variants.cycle_accurate import inner, variants

VARIANTS: tuple[Variant, ...] = (*variants(UNIT), *inner(UNIT, orizuru.VARIANTS))
