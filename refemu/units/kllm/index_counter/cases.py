"""Golden cases of index_counter: the worked columns of [kllm Fig. 3]'s shape, chunks that are not full, full ones."""

from collections.abc import Iterator

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, first_of_each, random_inputs

CYCLES = 16  #: cycles of a random case
LANES = 16  #: positions a cycle
FEW = 6  #: most bits of an index with a case for each index


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("index_counter").ports(config).inputs
    bits, amounts = config["bits"], config["amount_bits"]
    if kind == "paper":
        if amounts:
            why = "[kllm §III-B2] +n: 3 0 1 2 1 3 0 2 at indices 3 0 2 2 1 3 0 1 make 0 3 3 6"
            yield _column(kind, why, config, [3, 0, 2, 2, 1, 3, 0, 1], [3, 0, 1, 2, 1, 3, 0, 2])
        else:
            why = "[kllm §III-B1] a column of K = 8 and three-bit indices, as in Fig. 3"
            yield _column(kind, why, config, [3, 4, 6, 2, 5, 3, 0, 5])
    if kind == "edge":
        top = (1 << bits) - 1
        for length in (1, 15, 16, 17):
            yield _column(kind, f"K = {length}: the lanes past the end are not valid", config, [top] * length)
        yield _column(
            kind, "every lane at one index, and at the highest amount", config, [1] * 48, [(1 << amounts) - 1] * 48
        )
        amount = max((1 << amounts) - 1, 1)
        yield _column(kind, "one index at 4,112 positions", config, [top] * 4112, [amount] * 4112)
        yield _many(config) if bits > FEW else _each_index(config)
        yield _two_columns(config)
        yield _not_cleared(config)
        yield _left_out(config)
        yield _together(config)
    if kind == "random":
        each = 4 if bits <= FEW else 2
        drawn = random_inputs("index_counter", ports, (each, CYCLES), seed)
        drawn["clear"] = (np.arange(CYCLES) % 7 == 0) * np.ones_like(drawn["clear"])
        yield Cases("random", "uniform indices, half of them valid, a new column every seven cycles", drawn)
        full = {**drawn, "valid": np.ones_like(drawn["valid"])}
        yield Cases("random", "uniform indices, all valid", first_of_each(full, each, each // 2))


def _column(kind: Kind, why: str, config: Config, indices: list[int], amounts: list[int] | None = None) -> Cases:
    """One column, sixteen positions a cycle."""
    return Cases(kind, why, _inputs(config, [indices], [amounts or [1] * len(indices)], [[1] * len(indices)]))


def _each_index(config: Config) -> Cases:
    """31 positions at one index, with the highest amounts if any: the low bits of every counter."""
    size, amount = 1 << config["bits"], max((1 << config["amount_bits"]) - 1, 1)
    indices = [[index] * 31 for index in range(size)]
    inputs = _inputs(config, indices, [[amount] * 31] * size, [[1] * 31] * size)
    return Cases("edge", "31 positions at every index in turn", inputs)


def _many(config: Config) -> Cases:
    """Eight cycles with the same sixteen indices, no two of them neighbours, then with the next ones."""
    groups = np.arange(1 << config["bits"]).reshape(LANES, -1).T
    indices = groups[:, None].repeat(8, axis=1).ravel().tolist()
    return _column("edge", "sixteen indices at a time, eight times each: counters from 0 to 8", config, indices)


def _not_cleared(config: Config) -> Cases:
    """A column that is cut off, then one that starts from reset without `clear`."""
    inputs = _inputs(config, [[1] * 32, [0] * 32], [[1] * 32] * 2, [[1] * 32] * 2)
    return Cases("edge", "a column after reset without clear", {**inputs, "clear": np.zeros((2, 2), np.int64)})


def _two_columns(config: Config) -> Cases:
    """Two columns after each other: `clear` comes with the first cycle of the second."""
    first, second = list(range(16)), [15 - i // 2 for i in range(16)]
    small = [[i % (1 << config["bits"]) for i in column] for column in (first, second)]
    inputs = _inputs(config, [small[0] + small[1]], [[1] * 32], [[1] * 32])
    return Cases("edge", "a second column starts in the cycle after the first", {**inputs, "clear": np.array([[1, 1]])})


def _together(config: Config) -> Cases:
    """All lanes at each index in turn, then all but one: adders of the columns reach both ends."""
    size, amount = 1 << config["bits"], max((1 << config["amount_bits"]) - 1, 1)
    turns = np.array([*range(size), 0] if config["bits"] <= FEW else [1, 2, 1])
    indices = turns.repeat(2 * LANES).tolist()
    valid = np.ones((2 * len(turns), LANES), np.int64)
    valid[1::2][np.arange(len(turns)), np.arange(len(turns)) % LANES] = 0
    inputs = _inputs(config, [indices], [[amount] * len(indices)], [valid.reshape(-1).tolist()])
    return Cases(
        "edge", "all lanes at one index after another, at the highest amount, then all but one of them", inputs
    )


def _left_out(config: Config) -> Cases:
    """Positions of outliers do not count, at any index."""
    inputs = _inputs(config, [[0] * 16], [[1] * 16], [[1, 0] * 8])
    return Cases("edge", "outlier positions are invalid: the counts sum to K minus their number", inputs, "D-kllm-13")


def _inputs(
    config: Config, index: list[list[int]], amount: list[list[int]], valid: list[list[int]], lanes: int = LANES
) -> dict[str, np.ndarray]:
    cases, cycles = len(index), -(-len(index[0]) // lanes)

    def lay(rows: list[list[int]]) -> np.ndarray:
        table = np.zeros((cases, cycles * lanes), np.int64)
        table[:, : len(rows[0])] = rows
        return table.reshape(cases, cycles, lanes)

    clear = np.zeros((cases, cycles), np.int64)
    clear[:, 0] = 1
    inputs = {"clear": clear, "q": lay(index), "valid": lay(valid)}
    return inputs | ({"amount": lay(amount)} if config["amount_bits"] else {})
