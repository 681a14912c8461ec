"""The bidirectional page table: in the entry of a head, high pages from the left and low pages from the right."""

from refemu.units.leankv.page_table.page_table import *
from refemu.units.leankv.page_table.page_table import __all__ as __all__
