"""Other answers to the decisions of orizuru_clocked, and of the trees inside it."""

from refemu.units.alternative import Alternative
from refemu.units.kllm.orizuru import variants as orizuru
from refemu.units.kllm.orizuru_clocked import UNIT
from refemu.units.variants.clocked import alternatives, inner

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, orizuru.ALTERNATIVES),
)
