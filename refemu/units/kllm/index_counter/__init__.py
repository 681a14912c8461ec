"""The Index Distribution Counter: occurrences of each index among K positions, sixteen positions a cycle."""

from refemu.units.kllm.index_counter.index_counter import *
from refemu.units.kllm.index_counter.index_counter import __all__ as __all__
