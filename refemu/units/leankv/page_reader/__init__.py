"""Keys, values, scores and positions of the tokens in a head's pages."""

from refemu.units.leankv.page_reader.page_reader import *
from refemu.units.leankv.page_reader.page_reader import __all__ as __all__
