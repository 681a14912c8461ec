"""Running sums of page counts by a network: every head's region of the list of free pages."""

from refemu.units.leankv.prefix_sum.prefix_sum import *
from refemu.units.leankv.prefix_sum.prefix_sum import __all__ as __all__
