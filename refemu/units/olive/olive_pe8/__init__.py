"""An 8-bit multiply-accumulate from four 4-bit processing elements and one extra adder."""

from refemu.units.olive.olive_pe8.olive_pe8 import *
from refemu.units.olive.olive_pe8.olive_pe8 import __all__ as __all__
