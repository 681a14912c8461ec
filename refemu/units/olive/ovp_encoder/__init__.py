"""The outlier-victim pair encoder: two real values in grid units to one pair of codes."""

from refemu.units.olive.ovp_encoder.ovp_encoder import *
from refemu.units.olive.ovp_encoder.ovp_encoder import __all__ as __all__
