"""The output stage: two neighbouring 32-bit sums to fp16 words, and to the pair of codes that the next layer reads."""

from refemu.units.olive.olive_requant.olive_requant import *
from refemu.units.olive.olive_requant.olive_requant import __all__ as __all__
