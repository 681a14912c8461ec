"""Other answers to the decisions of mmaovp_clocked, and of the tensor core inside it."""

from refemu.units.alternative import Alternative
from refemu.units.olive.mmaovp import variants as mmaovp
from refemu.units.olive.mmaovp_clocked import UNIT
from refemu.units.variants.clocked import alternatives, inner

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, mmaovp.ALTERNATIVES),
)
