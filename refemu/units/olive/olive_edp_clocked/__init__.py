"""The dot product unit , sequential: a clock edge decodes, multiplies, shifts or reduces, or is idle."""

from refemu.units.olive.olive_edp_clocked.olive_edp_clocked import *
from refemu.units.olive.olive_edp_clocked.olive_edp_clocked import __all__ as __all__
