"""The flint decoder: a signed flint4 code to an exponent-integer pair."""

from refemu.units.olive.flint_decoder.flint_decoder import *
from refemu.units.olive.flint_decoder.flint_decoder import __all__ as __all__
