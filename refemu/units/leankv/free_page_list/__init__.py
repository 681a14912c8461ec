"""The circular list of free pages: ids leave where it starts and come back where it ends."""

from refemu.units.leankv.free_page_list.free_page_list import *
from refemu.units.leankv.free_page_list.free_page_list import __all__ as __all__
