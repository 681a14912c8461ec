"""Golden cases of orizuru16: values of a stage, ties, popped values, every place of the largest and the smallest."""

from collections.abc import Iterator

import numpy as np

from refemu.units import Cases, Config, Kind, Port, stimuli
from refemu.units.stimuli import Seeds

INPUTS = 16
FIG7 = [0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400]  #: 3 7 1 5 2 6 9 4, the row of Fig. 7
TIES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00]  #: zeros, ones, infinities
EDGES = 24  #: rows of a random case


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    shared = config["min_leaf"] == "not_max"
    if kind == "paper":
        why = "[kllm §IV-C, Fig. 7] the row of the figure, its maximum popped, then its minimum; no values beyond eight"
        yield Cases(kind, why, _sides(_figure(), _masks(), shared))
    if kind == "edge":
        row = np.arange(INPUTS)
        ranks = 0x3C00 + 0x155 * ((row[None] + row[:, None]) % INPUTS)
        why = "the largest and the smallest value at every input; bits of the words alternate"
        yield Cases(kind, why, _sides(ranks ^ (ranks & 1) << 15, np.ones_like(ranks), shared))
        ties = np.array([[TIES[(at * step + step) % len(TIES)] for at in row] for step in range(1, 9)])
        why = "ties, zeros of both signs and infinities, all of them available"
        yield Cases(kind, why, _sides(ties, np.ones_like(ties), shared), "D-kllm-21")
        small = np.array([0x0000, 0x8000, 0x0001, 0x8001])
        zeros = np.concatenate([np.resize(np.roll(small[:2], turn), (1, INPUTS)) for turn in (0, 1)])
        tiny = np.stack([np.resize(small[[2, 0, 1]], INPUTS), np.resize(small[[3, 1, 0]], INPUTS)])
        rows = np.concatenate([zeros, tiny])
        why = "zeros of both signs alone, in either order; the least magnitudes with them"
        yield Cases(kind, why, _sides(rows, np.ones_like(rows), shared), "D-kllm-27")
        popped = np.concatenate(
            [np.eye(INPUTS, dtype=np.int64), 1 - np.eye(INPUTS, dtype=np.int64), [0 * row, 0 * row + 1]]
        )
        words = np.resize(np.concatenate([ranks[0], 0x8000 | ranks[3], np.resize(TIES, INPUTS)]), popped.shape)
        why = "one value available, all but one, none, all: a single value wins whatever it is"
        yield Cases(kind, why, _sides(words, popped, shared), "D-kllm-22")
    if kind == "random":
        yield Cases(kind, "uniform finite words of both trees", _random(seed, shared))


def _figure() -> np.ndarray:
    return np.array([[*FIG7, *[0] * 8]] * 3)


def _masks() -> np.ndarray:
    masks = np.array([[*[1] * 8, *[0] * 8]] * 3)
    masks[1:, 6] = 0
    masks[2, 2] = 0
    return masks


def _random(seed: Seeds, shared: bool) -> dict[str, np.ndarray]:
    """Words of both trees; those of an infinity's exponent become smaller ones."""
    ports = (Port("words", 16, INPUTS), Port("valid", 1, INPUTS))
    drawn = stimuli.random_inputs("orizuru16", ports, (1, EDGES), seed)
    words = drawn["words"].astype(np.int64)
    return _sides(np.where(words & 0x7C00 == 0x7C00, words ^ 0x4000, words), drawn["valid"].astype(np.int64), shared)


def _sides(words: np.ndarray, valid: np.ndarray, shared: bool) -> dict[str, np.ndarray]:
    """Inputs of both trees: the same values in the lowest stage, else those of other subtrees, reversed.

    words, valid: rows of a case, or of several.
    """
    turned = valid[..., ::-1, :]
    low, low_valid = (words, turned) if shared else (words[..., ::-1], turned[..., ::-1])
    sides = {"top": words, "top_valid": valid, "low": low, "low_valid": low_valid}
    return {name: np.ascontiguousarray(array).reshape(-1, *array.shape[-2:]) for name, array in sides.items()}
