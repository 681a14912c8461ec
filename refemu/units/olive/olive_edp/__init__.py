"""The dot product unit of a tensor core with pair decoders: 16 products of 4-bit pairs, or 8 of 8-bit pairs."""

from refemu.units.olive.olive_edp.olive_edp import *
from refemu.units.olive.olive_edp.olive_edp import __all__ as __all__
