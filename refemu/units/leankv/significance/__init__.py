"""Significance of tokens: the attention from later tokens to each, summed, averaged, and as a share of all."""

from refemu.units.leankv.significance.significance import *
from refemu.units.leankv.significance.significance import __all__ as __all__
