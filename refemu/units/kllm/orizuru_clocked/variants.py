"""Variants of the decisions of orizuru_clocked, and of the trees inside it."""

from refemu.units.cycle_accurate import variants
from refemu.units.kllm.orizuru import variants as orizuru
from refemu.units.kllm.orizuru_clocked import UNIT
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = variants(UNIT, orizuru.VARIANTS)
