"""Random weights of the built-in models: bell-shaped integers with a heavy tail whose outliers can be neighbours.

They are made from random words by integer operations, so they are the same everywhere. A label selects the words.
"""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from refemu.arith import prng
from refemu.arith.checks import lookup

SEED = 0


def bell(label: str, shape: tuple[int, ...]) -> np.ndarray:
    """Bell-shaped integers in [-512, 511], standard deviation 148: int64 of `shape`."""
    words = prng.words(prng.stream(label, SEED), 0, _count(shape))
    return (prng.bell(words) >> 8).reshape(shape)


def tail(label: str, shape: tuple[int, ...]) -> np.ndarray:
    """Left shift of each element: 0 for most; drawn by pairs, so that outliers can be neighbours.

    Of 4,096 pairs 52 have one outlier (3 bits), 3 have two, and 1 has a larger one (5 bits).
    """
    pairs = prng.below(prng.words(prng.stream(f"{label}/tail", SEED), 0, _count(shape) // 2), 4096)
    left = np.where((pairs < 26) | (pairs >= 52) & (pairs < 55), 3, 0)
    right = np.where((pairs >= 26) & (pairs < 55), 3, 0)
    return np.stack([np.where(pairs == 55, 5, left), right], axis=-1).reshape(shape)


class Weights:
    """Random weights of a model: each is `integers(name)` times a power of two, an fp16 value."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]]  #: shapes by canonical name, in model order

    @staticmethod
    def integers(name: str) -> np.ndarray:
        """A weight in units of 2**-fraction(name): int64."""
        raise NotImplementedError

    @staticmethod
    def fraction(name: str) -> int:
        """Fraction bits of these integers."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names in model order."""
        return tuple(self.shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a weight; raises Refused for an unknown name."""
        return lookup("tensor", name, self.shapes)

    def tensor(self, name: str) -> np.ndarray:
        """A weight as float32, every element an fp16 value; raises Refused for an unknown name."""
        self.shape(name)
        return np.ldexp(self.integers(name).astype(np.float32), np.int32(-self.fraction(name)))

    def sha256(self) -> str:
        """sha256 over the weights in model order, each as little-endian float32."""
        total = hashlib.sha256()
        for name in self.shapes:
            total.update(self.tensor(name).astype("<f4").tobytes())
        return total.hexdigest()


def fraction(name: str, bits: Mapping[str, int]) -> int:
    """Fraction bits of weight `name`: its part's in `bits` (one entry for all norms), else 10."""
    part = name.rpartition(".")[2]
    return bits["norm"] if part.endswith("norm") else bits.get(part, 10)


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)
