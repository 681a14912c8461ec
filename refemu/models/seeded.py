"""Seeded integers shaped like the weights of a model: a bell, and a heavy tail whose outliers can be neighbours.

Made of random words by integer operations, so the same everywhere. A label names what the words are for.
"""

import numpy as np

from refemu.arith import prng

SEED = 0


def bell(label: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bell-shaped integers in [-512, 511], standard deviation 148: int64 of `shape`."""
    words = prng.words(prng.stream(label, SEED), 0, _count(shape))
    return (prng.bell(words) >> 8).reshape(shape)


def tail(label: str, shape: tuple[int, ...]) -> np.ndarray:
    """How far each element is shifted left: 0 for most; drawn by pairs, so that outliers can be neighbours.

    Of 4,096 pairs 52 have one outlier (3 bits), 3 have two, and 1 has a far one (5 bits).
    """
    pairs = prng.below(prng.words(prng.stream(f"{label}/tail", SEED), 0, _count(shape) // 2), 4096)
    left = np.where((pairs < 26) | (pairs >= 52) & (pairs < 55), 3, 0)
    right = np.where((pairs >= 26) & (pairs < 55), 3, 0)
    return np.stack([np.where(pairs == 55, 5, left), right], axis=-1).reshape(shape)


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)
