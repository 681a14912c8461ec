"""Significance of tokens: the attention that later tokens pay to each, summed, averaged, and as a share of all."""

from refemu.units.leankv.significance.significance import *
from refemu.units.leankv.significance.significance import __all__ as __all__
