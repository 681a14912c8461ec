"""The sub-PE: 32 products of a 4-bit and an 8-bit magnitude with signs, and their exact sum."""

from refemu.units.harmonia.sub_pe.sub_pe import *
from refemu.units.harmonia.sub_pe.sub_pe import __all__ as __all__
