"""Twin of prefix_sum.run: a running sum of all rows at once. Read prefix_sum.py first. [leankv §5.2]

Integers have no order, so the network is left out; its levels and additions follow from the number of elements.
"""

from typing import Any

import numpy as np

from refemu.units.prefix_sum import PrefixSum, Result, depth
from refemu.units.unit import admit


def run(counts: Any, base: Any, *, elements: int = 8) -> Result:
    """As `prefix_sum.run`."""
    device = PrefixSum(elements)
    words, start = admit(device.name, device.ports.inputs, (counts, base))
    rows = words.reshape(*start.shape, elements).astype(np.uint64)
    inclusive = (np.cumsum(rows, axis=-1, dtype=np.uint64) + start[..., None]).astype(np.uint32)
    levels, adds = network(elements)
    return Result(inclusive.reshape(words.shape), start.size * levels, start.size * adds)


def network(elements: int) -> tuple[int, int]:
    """Levels of a network, and its additions: m * levels - (2**levels - 1)."""
    levels = depth(elements)
    return levels, elements * levels - ((1 << levels) - 1)
