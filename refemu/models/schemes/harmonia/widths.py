"""Cache lengths at which keys and groups of values are demoted. [harmonia §III-B]"""

import numpy as np

from refemu.formats.groups import count
from refemu.units.harmonia.bit_allocator import Allocation

GROUP = 32


def falls(rule: Allocation, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Cache lengths at which keys and groups of values are demoted to `low` bits; 0: beyond `tokens`."""
    keys, groups = np.arange(tokens), np.arange(count(tokens, GROUP))
    k = np.where(keys >= rule.n_initial, keys + 1 + rule.n_local, 0)
    v = np.where(groups * GROUP >= rule.n_initial, (groups + 1) * GROUP + rule.n_local, 0)
    reached = rule.low < rule.high
    return k * (k <= tokens) * reached, v * (v <= tokens) * reached
