"""The outlier-victim pair decoder: two codes to two exponent-integer pairs. [olive §4.2, Fig. 6b, Fig. 7]"""

from refemu.units.olive.ovp_decoder.ovp_decoder import *
from refemu.units.olive.ovp_decoder.ovp_decoder import __all__ as __all__
