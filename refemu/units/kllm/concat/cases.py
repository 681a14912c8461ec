"""Golden cases of concat: [kllm §III-B]'s exchanged operands, both ends of both widths, every pair."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Seeds, crossed, sequences, uniform


def paper(config: Config) -> Blocks:
    yield "[kllm §III-B] not commutative: the operands exchanged", sequences("ab", [[[1, 0], [0, 1]]]), "D-kllm-6"


def edge(config: Config) -> Blocks:
    top = (1 << config["a_bits"]) - 1, (1 << config["b_bits"]) - 1
    why = "both ends of both operands; the register has the last edge only"
    yield why, sequences("ab", [[top, (0, top[1]), (top[0], 0), (0, 0)]]), "D-kllm-6"


def random(config: Config, seed: Seeds) -> Blocks:
    yield "sequences of uniform indices", uniform("concat", config, (8, 16), seed)


def exhaustive(config: Config) -> Blocks:
    pairs = crossed(a=np.arange(1 << config["a_bits"]), b=np.arange(1 << config["b_bits"]))
    yield "every pair of indices", {name: np.roll(words, -1)[None] for name, words in pairs.items()}
