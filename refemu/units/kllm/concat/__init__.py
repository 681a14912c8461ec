"""The Concat unit: joins two indices in an 8-bit register, the index of a product codebook."""

from refemu.units.kllm.concat.concat import *
from refemu.units.kllm.concat.concat import __all__ as __all__
