"""Orizuru, sequential: a clock edge loads, sets a level of a tree, pops, repairs one node, or is idle."""

from refemu.units.kllm.orizuru_clocked.orizuru_clocked import *
from refemu.units.kllm.orizuru_clocked.orizuru_clocked import __all__ as __all__
