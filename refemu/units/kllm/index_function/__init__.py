"""A function of a K-Means tensor: the indices stay, a table of function values replaces the codebook."""

from refemu.units.kllm.index_function.index_function import *
from refemu.units.kllm.index_function.index_function import __all__ as __all__
