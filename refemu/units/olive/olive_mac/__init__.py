"""The exponent-integer multiply-accumulate unit: <a, b> x <c, d> = <a + c, b d>, added to a 32-bit register."""

from refemu.units.olive.olive_mac.olive_mac import *
from refemu.units.olive.olive_mac.olive_mac import __all__ as __all__
