"""Other answers to the decisions of mmaovp_clocked, and of the tensor core inside it."""

from refemu.units.alternative import Alternative
from refemu.units.alternatives.clocked import alternatives, inner
from refemu.units.olive.alternatives import mmaovp
from refemu.units.olive.mmaovp_clocked import UNIT

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, mmaovp.ALTERNATIVES),
)
