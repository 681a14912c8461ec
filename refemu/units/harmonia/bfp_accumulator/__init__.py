"""The accumulator that the sub-PEs of a PE share: fuse nibbles, convert to floating point, scale, add in FP32."""

from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import *
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import __all__ as __all__
