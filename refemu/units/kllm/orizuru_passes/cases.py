"""Golden cases of orizuru_passes: the rows of orizuru, and outliers and ties placed by chunk.

Tokens are wider than the tree of [kllm Table I].
"""

from collections.abc import Iterator

import numpy as np

from refemu.units.kllm.orizuru import cases as orizuru_cases
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Kind

ONE, MINUS = 0x3C00, 0x8000


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    if kind == "edge":
        why = "all outliers of a token in one chunk: the extremes of other chunks lose, and its root is the token's"
        yield Cases(kind, why, {"x": _crowded(config)}, "D-kllm-60")
        why = "an equal pair among the extremes of every chunk: the first chunk's wins, in the min tree its odd element"
        yield Cases(kind, why, {"x": _tied(config)}, "D-kllm-61")
    yield from orizuru_cases.cases(config, kind, seed)


def _crowded(config: Config) -> np.ndarray:
    """A row for each chunk, which has more large and small values than pops; different values elsewhere."""
    n, inputs = config["n"], config["inputs"]
    row, place = np.arange(-(-n // inputs))[:, None], np.arange(n)
    rest = ONE + 37 * place % 64 | np.where(place % 3 == 0, MINUS, 0)
    ends = 0x5000 + 101 * place % 256 | np.where(place % 2 == 0, MINUS, 0)
    return np.where(place // inputs == row, ends, rest)


def _tied(config: Config) -> np.ndarray:
    """Rows of pairs; the pair at each place in turn is larger, the next one smaller, in every chunk."""
    n, inputs = config["n"], config["inputs"]
    row, pair = np.arange(inputs // 2)[:, None], np.arange(n) % inputs // 2
    return np.where(pair == row, 0x4000, np.where(pair == (row + 1) % (inputs // 2), MINUS | 0x4000, ONE))
