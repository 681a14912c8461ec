"""Golden cases of orizuru: a row with the steps of [kllm Fig. 7], ties, zeros, infinities, random rows."""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Seeds, port_values, repeated, words

FIG7 = (0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400)  #: 3 7 1 5 2 6 9 4, a row with Fig. 7's steps
HIGH, INF, TINY, ONE = 0x7BFF, 0x7C00, 0x0001, 0x3C00
MINUS = 0x8000  #: the sign
WIDE = 32  #: most values of a unit with all random rows


def paper(config: Config) -> Blocks:
    n = config["n"]
    yield _cases("[kllm §IV-C, Fig. 7] the maximum 9 is leaf 14 of eight, its neighbour follows", n, [FIG7])


def edge(config: Config) -> Blocks:
    n = config["n"]
    ends = [INF, MINUS | INF, HIGH, MINUS | HIGH]
    yield _cases("all values equal: which neighbour is popped first", n, [[ONE], [0], [MINUS | HIGH]], "D-kllm-21")
    yield _cases("zeros of both signs", n, [[0, MINUS], [MINUS, 0], [0, 0, MINUS], [MINUS, MINUS, 0]], "D-kllm-27")
    why = "infinities and the ends of fp16: a popped leaf ranks below -inf"
    yield _cases(why, n, [ends, ends[::-1], [INF], [MINUS | INF], [ONE, MINUS | INF, MINUS | INF]], "D-kllm-22")
    yield _cases("subnormals and their neighbours", n, [[TINY, MINUS | TINY, 0], [0x03FF, 0x0400, 0x8400, 0x83FF]])
    if n > WIDE:
        yield "the largest values and the smallest at each place in turn", {"x": _ends(n, config["k"])}
    rising = np.arange(n)
    yield "rising and falling rows", {"x": ONE + np.stack([rising, rising[::-1]])}
    if config["total_order"]:
        nan = [0x7E00, MINUS | 0x7E00, 0x7C01, 0x7FFF, 0xFFFF, 0xFC01]
        yield _cases("NaN beyond infinity, ordered by its payload", n, [nan, [*ends, *nan]], "D-kllm-27")
        yield _cases("-0 remains at both roots", n, [[ONE] * config["k"] + [MINUS] * (n - config["k"])])


def random(config: Config, seed: Seeds) -> Blocks:
    (port,), n = find("orizuru").ports(config).inputs, config["n"]
    x = port_values("orizuru", port, (32 if n > WIDE else 128,), seed).reshape(-1, n)
    yield "uniform finite words", {"x": x}
    few = words("orizuru/ties/x", seed, (32 if n > WIDE else 64) * n) >> np.uint64(62)
    ties = np.array([0, MINUS, ONE, MINUS | ONE])[few.astype(np.int64)].reshape(-1, n)
    yield "rows of four values: ties everywhere", {"x": ties}, "D-kllm-21"


def _ends(n: int, k: int) -> np.ndarray:
    """Rows (ceil(n / k), n): k values exceed the others; either tree pops every leaf."""
    row, place = np.arange(-(-n // k))[:, None], np.arange(n)
    words = ONE + place % 7 + 0x1000 * (place // k == row)
    return words | np.where(place // k == (row + 1) % len(row), MINUS, 0)


def _cases(why: str, n: int, rows: Any, decision: str = "") -> Block:
    """Rows of words, repeated to n values."""
    return why, {"x": repeated(rows, n)}, decision
