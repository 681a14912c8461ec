"""Compiled form of prefix_sum: a running sum over all rows at once. [leankv §5.2]

Integer additions may be in any order, so there is no network; its levels and additions follow from the number of
elements.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.prefix_sum import UNIT, PrefixSum, depth


@compiled_run(UNIT)
def run(device: PrefixSum, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """One cumulative sum over the rows of counts."""
    counts, base = inputs
    rows = counts.reshape(len(base), device.elements)
    sums = np.cumsum(rows, axis=-1, dtype=np.uint64) + base[:, None]
    inclusive, level = outputs
    inclusive[...], level[...] = sums.astype(np.uint32).reshape(counts.shape), depth(device.elements)
    return [len(base) * count for count in network(device.elements)]


@lru_cache(maxsize=256)
def network(elements: int) -> tuple[int, int]:
    """Levels of a network, and its additions: m * levels - (2**levels - 1)."""
    levels = depth(elements)
    return levels, elements * levels - ((1 << levels) - 1)
