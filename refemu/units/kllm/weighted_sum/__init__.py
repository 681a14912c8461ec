"""The weighted sum: counts times codebook entries, one MAC each, the reduction of an index MatMul."""

from refemu.units.kllm.weighted_sum.weighted_sum import *
from refemu.units.kllm.weighted_sum.weighted_sum import __all__ as __all__
