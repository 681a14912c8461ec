"""Imports of the server that the workers of a campaign are forked from, so that none of them repeats them.

It also computes a few rows in compiled form, since numba reads its own tables at the first such call.
"""

from refemu.arith import jit
from refemu.golden.campaign.shards import RandomShard

__all__ = ["jit"]

list(RandomShard("concat", "a4", 0, 1).render())
