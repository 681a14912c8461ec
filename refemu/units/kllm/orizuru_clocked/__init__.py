"""Orizuru with a clock: an edge loads, sets a level of a tree, pops or repairs one node, or nothing is under way."""

from refemu.units.kllm.orizuru_clocked.orizuru_clocked import *
from refemu.units.kllm.orizuru_clocked.orizuru_clocked import __all__ as __all__
