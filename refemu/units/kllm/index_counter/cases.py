"""Golden cases of index_counter: the worked columns of [kllm Fig. 3]'s shape, chunks that are not full, full ones."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, first_of_each, uniform

CYCLES = 16  #: cycles of a random case
LANES = 16  #: positions a cycle
FEW = 6  #: most bits of an index with a case for each index


def paper(config: Config) -> Blocks:
    if config["amount_bits"]:
        why = "[kllm §III-B2] +n: 3 0 1 2 1 3 0 2 at indices 3 0 2 2 1 3 0 1 make 0 3 3 6"
        yield _column(why, config, [3, 0, 2, 2, 1, 3, 0, 1], [3, 0, 1, 2, 1, 3, 0, 2])
    else:
        why = "[kllm §III-B1] a column of K = 8 and three-bit indices, as in Fig. 3"
        yield _column(why, config, [3, 4, 6, 2, 5, 3, 0, 5])


def edge(config: Config) -> Blocks:
    size = 1 << config["bits"]
    amount = max((1 << config["amount_bits"]) - 1, 1)  # the highest
    for length in (1, 15, 16, 17):
        yield _column(f"K = {length}: the lanes past the end are not valid", config, [size - 1] * length)
    yield _column("every lane at one index, and at the highest amount", config, [1] * 48, [amount] * 48)
    yield _column("one index at 4,112 positions", config, [size - 1] * 4112, [amount] * 4112)
    if config["bits"] > FEW:
        groups = np.arange(size).reshape(LANES, -1).T[:, None].repeat(8, axis=1).ravel()  # not of neighbours
        yield _column("sixteen indices at a time, eight times each: counters from 0 to 8", config, groups)
    else:
        rows = np.arange(size)[:, None].repeat(31, axis=1)
        yield "31 positions at every index in turn", _inputs(config, rows, amount)
    two = np.array([*range(16), *(15 - i // 2 for i in range(16))])[None] % size
    both = {**_inputs(config, two), "clear": np.array([[1, 1]])}
    yield "a second column starts in the cycle after the first", both
    cut_off = _inputs(config, np.array([[1] * 32, [0] * 32]))
    yield "a column after reset without clear", {**cut_off, "clear": np.zeros((2, 2), np.int64)}
    inputs = _inputs(config, np.zeros((1, 16), np.int64), valid=[1, 0] * 8)
    yield "outlier positions are invalid: the counts sum to K minus their number", inputs, "D-kllm-13"
    turns = np.array([*range(size), 0] if config["bits"] <= FEW else [1, 2, 1])
    valid = np.ones((len(turns), 2, LANES), np.int64)
    valid[np.arange(len(turns)), 1, np.arange(len(turns)) % LANES] = 0
    inputs = _inputs(config, turns.repeat(2 * LANES)[None], amount, valid.ravel())
    yield "all lanes at one index after another, at the highest amount, then all but one of them", inputs


def random(config: Config, seed: Seeds) -> Blocks:
    each = 4 if config["bits"] <= FEW else 2
    drawn = uniform("index_counter", config, (each, CYCLES), seed)
    drawn["clear"] = (np.arange(CYCLES) % 7 == 0) * np.ones_like(drawn["clear"])
    yield "uniform indices, half of them valid, a new column every seven cycles", drawn
    full = {**drawn, "valid": np.ones_like(drawn["valid"])}
    yield "uniform indices, all valid", first_of_each(full, each, each // 2)


def _column(why: str, config: Config, indices: ArrayLike, amounts: ArrayLike = 1) -> Block:
    return why, _inputs(config, np.array([indices]), amounts)


def _inputs(config: Config, index: np.ndarray, amount: ArrayLike = 1, valid: ArrayLike = 1) -> dict[str, np.ndarray]:
    """Columns, sixteen positions a cycle; amount, valid: of every position, or of each of a column."""
    count, length = index.shape
    cycles = -(-length // LANES)

    def lay(values: ArrayLike) -> np.ndarray:
        table = np.zeros((count, cycles * LANES), np.int64)
        table[:, :length] = values
        return table.reshape(count, cycles, LANES)

    clear = np.tile(np.arange(cycles) == 0, (count, 1)).astype(np.int64)
    inputs = {"clear": clear, "q": lay(index), "valid": lay(valid)}
    return inputs | ({"amount": lay(amount)} if config["amount_bits"] else {})
