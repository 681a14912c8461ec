"""Other answers to the decisions of olive_edp_clocked, and of the dot product unit inside it."""

from refemu.units.alternative import Alternative
from refemu.units.alternatives.clocked import alternatives, inner
from refemu.units.olive.alternatives import olive_edp
from refemu.units.olive.olive_edp_clocked import UNIT

ALTERNATIVES: tuple[Alternative, ...] = (
    *alternatives(UNIT),
    *inner(UNIT, olive_edp.ALTERNATIVES),
)
