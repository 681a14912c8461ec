"""Golden cases of orizuru_passes: the rows of orizuru, and outliers and ties placed by chunk.

Tokens are wider than the tree of [kllm Table I].
"""

import numpy as np

from refemu.units.kllm.orizuru import cases as orizuru_cases
from refemu.units.stimuli import Blocks
from refemu.units.unit import Config

ONE, MINUS = 0x3C00, 0x8000


paper, random = orizuru_cases.paper, orizuru_cases.random


def edge(config: Config) -> Blocks:
    why = "all outliers of a token in one chunk: the extremes of other chunks lose, and its root is the token's"
    yield why, {"x": _crowded(config)}, "D-kllm-60"
    why = "an equal pair among the extremes of every chunk: the first chunk's wins, in the min tree its odd element"
    yield why, {"x": _tied(config)}, "D-kllm-61"
    yield from orizuru_cases.edge(config)


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
