"""The output stage: from two neighbouring 32-bit sums to fp16 words, and to a pair of codes for the next layer."""

from refemu.units.olive.olive_requant.olive_requant import *
from refemu.units.olive.olive_requant.olive_requant import __all__ as __all__
