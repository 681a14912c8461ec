"""The circular list of free pages: ids leave at its start and come back at its end."""

from refemu.units.leankv.free_page_list.free_page_list import *
from refemu.units.leankv.free_page_list.free_page_list import __all__ as __all__
