"""Other answers to the decisions of olive_edp_clocked, and of the dot product unit inside it."""

from refemu.units.alternative import Alternative
from refemu.units.olive.olive_edp import variants as olive_edp
from refemu.units.olive.olive_edp_clocked import UNIT
from refemu.units.variants.clocked import alternatives, inner

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, olive_edp.ALTERNATIVES),
)
