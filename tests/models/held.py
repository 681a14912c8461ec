"""Random weights of small models, in memory."""

from collections.abc import Mapping

import numpy as np


class Held:
    """Weights by canonical name, as a model reads them."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self.values, self.names = values, tuple(values)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def tensor(self, name: str) -> np.ndarray:
        return self.values[name]


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int, divisor: int) -> dict[str, np.ndarray]:
    """Normal float64 draws over `divisor`; gains of norms are around 1."""
    random = np.random.default_rng(seed)
    draws = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    return {name: 1 + draw / 4 if name.endswith("norm") else draw / divisor for name, draw in draws.items()}
