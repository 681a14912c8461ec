"""The output-stationary systolic array with pair decoders on two borders."""

from refemu.units.olive.olive_systolic.olive_systolic import *
from refemu.units.olive.olive_systolic.olive_systolic import __all__ as __all__
