"""Other answers to the decisions of orizuru_clocked, and of the trees inside it."""

from refemu.units.alternative import Alternative
from refemu.units.alternatives.clocked import alternatives, inner
from refemu.units.kllm.alternatives import orizuru
from refemu.units.kllm.orizuru_clocked import UNIT

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, orizuru.ALTERNATIVES),
)
