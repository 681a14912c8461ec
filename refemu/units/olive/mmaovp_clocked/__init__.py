"""The instruction mmaovp , sequential: one dot product operation of a tile a clock edge, or idle."""

from refemu.units.olive.mmaovp_clocked.mmaovp_clocked import *
from refemu.units.olive.mmaovp_clocked.mmaovp_clocked import __all__ as __all__
