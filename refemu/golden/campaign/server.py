"""Imported once by the server that the workers of a campaign are forked from, so that none of them repeats it.

Beside the imports it makes a few rows with a compiled twin, because numba reads its own tables at the first such call.
"""

from refemu.arith import jit
from refemu.golden.campaign.shards import RandomShard

__all__ = ["jit"]

list(RandomShard("concat", "a4", 0, 1).render())
