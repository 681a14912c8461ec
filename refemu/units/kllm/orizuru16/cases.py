"""Golden cases of orizuru16: values of a stage, ties, popped values, every place of the largest and the smallest."""

import numpy as np

from refemu.units import Config, Port
from refemu.units.stimuli import Blocks, Seeds, random_inputs, repeated

INPUTS = 16
FIG7 = [0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400]  #: 3 7 1 5 2 6 9 4, the row of Fig. 7
TIES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00]  #: zeros, ones, infinities
EDGES = 24  #: rows of a random case


def paper(config: Config) -> Blocks:
    shared = config["min_leaf"] == "not_max"
    valid = [[1] * 8, [1] * 6 + [0, 1], [1, 1, 0, 1, 1, 1, 0, 1]]
    rows = np.array([FIG7] * 3 + valid).reshape(2, 3, 8)
    why = "[kllm §IV-C, Fig. 7] the row of the figure, its maximum popped, then its minimum; no values beyond eight"
    rows = np.pad(rows, ((0, 0), (0, 0), (0, 8)))
    yield why, _sides(rows[0], rows[1], shared)


def edge(config: Config) -> Blocks:
    shared = config["min_leaf"] == "not_max"
    row = np.arange(INPUTS)
    ranks = 0x3C00 + 0x155 * ((row[None] + row[:, None]) % INPUTS)
    why = "the largest and the smallest value at every input; bits of the words alternate"
    yield why, _sides(ranks ^ (ranks & 1) << 15, np.ones_like(ranks), shared)
    ties = np.array(TIES)[(row + 1) * np.arange(1, 9)[:, None] % len(TIES)]
    why = "ties, zeros of both signs and infinities, all of them available"
    yield why, _sides(ties, np.ones_like(ties), shared), "D-kllm-21"
    rows = repeated([[0x0000, 0x8000], [0x8000, 0x0000], [0x0001, 0x0000, 0x8000], [0x8001, 0x8000, 0x0000]], INPUTS)
    why = "zeros of both signs alone, in either order; the least magnitudes with them"
    yield why, _sides(rows, np.ones_like(rows), shared), "D-kllm-27"
    single = np.eye(INPUTS, dtype=np.int64)
    popped = np.concatenate([single, 1 - single, [0 * row, 0 * row + 1]])
    words = np.resize(np.concatenate([ranks[0], 0x8000 | ranks[3], np.resize(TIES, INPUTS)]), popped.shape)
    why = "one value available, all but one, none, all: a single value wins whatever it is"
    yield why, _sides(words, popped, shared), "D-kllm-22"


def random(config: Config, seed: Seeds) -> Blocks:
    ports = (Port("words", 16, INPUTS, encoding="f16"), Port("valid", 1, INPUTS))
    drawn = random_inputs("orizuru16", ports, (1, EDGES), seed)
    yield "uniform finite words of both trees", _sides(drawn["words"], drawn["valid"], config["min_leaf"] == "not_max")


def _sides(words: np.ndarray, valid: np.ndarray, shared: bool) -> dict[str, np.ndarray]:
    """Inputs of both trees: the same values in the lowest stage, else those of other subtrees, reversed.

    words, valid: rows of a case, or of several.
    """
    turned = valid[..., ::-1, :]
    low, low_valid = (words, turned) if shared else (words[..., ::-1], turned[..., ::-1])
    sides = {"top": words, "top_valid": valid, "low": low, "low_valid": low_valid}
    return {name: np.ascontiguousarray(array).reshape(-1, *array.shape[-2:]) for name, array in sides.items()}
