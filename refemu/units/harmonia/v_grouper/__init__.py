"""V, grouped along tokens as they arrive: full groups are committed, the residual is converted again at every step."""

from refemu.units.harmonia.v_grouper.v_grouper import *
from refemu.units.harmonia.v_grouper.v_grouper import __all__ as __all__
