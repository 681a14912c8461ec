"""The dot product unit with a clock: an edge decodes, multiplies, shifts or reduces, or nothing is under way."""

from refemu.units.olive.olive_edp_clocked.olive_edp_clocked import *
from refemu.units.olive.olive_edp_clocked.olive_edp_clocked import __all__ as __all__
