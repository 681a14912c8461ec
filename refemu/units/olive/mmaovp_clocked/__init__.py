"""The instruction mmaovp with a clock: an edge is one dot product operation of a tile, or nothing is under way."""

from refemu.units.olive.mmaovp_clocked.mmaovp_clocked import *
from refemu.units.olive.mmaovp_clocked.mmaovp_clocked import __all__ as __all__
