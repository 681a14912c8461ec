"""Golden cases of orizuru: a row with the steps of [kllm Fig. 7], ties, zeros, infinities, random rows."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, random, words

FIG7 = (0x4200, 0x4700, 0x3C00, 0x4500, 0x4000, 0x4600, 0x4880, 0x4400)  #: 3 7 1 5 2 6 9 4, a row with Fig. 7's steps
HIGH, INF, TINY, ONE = 0x7BFF, 0x7C00, 0x0001, 0x3C00
MINUS = 0x8000  #: the sign
WIDE = 32  #: most values of a unit with all random rows


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("orizuru").ports(config).inputs
    n = config["n"]
    if kind == "paper":
        yield _cases(kind, "[kllm §IV-C, Fig. 7] the maximum 9 is leaf 14 of eight, its neighbour follows", n, [FIG7])
    if kind == "edge":
        yield from _edge(config, n)
    if kind == "random":
        yield _block(
            kind,
            "uniform finite words",
            random("orizuru", ports[0], (32 if n > WIDE else 128,), seed).reshape(-1, n),
            n,
        )
        few = words("orizuru/ties/x", seed, (32 if n > WIDE else 64) * n) >> np.uint64(62)
        ties = np.array([0, MINUS, ONE, MINUS | ONE])[few.astype(np.int64)].reshape(-1, n)
        yield _block(kind, "rows of four values: ties everywhere", ties, n, "D-kllm-21")


def _edge(config: Mapping[str, Any], n: int) -> Iterator[Cases]:
    ends = [INF, MINUS | INF, HIGH, MINUS | HIGH]
    yield _cases(
        "edge", "all values equal: which neighbour is popped first", n, [[ONE], [0], [MINUS | HIGH]], "D-kllm-21"
    )
    yield _cases(
        "edge", "zeros of both signs", n, [[0, MINUS], [MINUS, 0], [0, 0, MINUS], [MINUS, MINUS, 0]], "D-kllm-27"
    )
    why = "infinities and the ends of fp16: a popped leaf ranks below -inf"
    yield _cases("edge", why, n, [ends, ends[::-1], [INF], [MINUS | INF], [ONE, MINUS | INF, MINUS | INF]], "D-kllm-22")
    yield _cases(
        "edge", "subnormals and their neighbours", n, [[TINY, MINUS | TINY, 0], [0x03FF, 0x0400, 0x8400, 0x83FF]]
    )
    if n > WIDE:
        yield _block("edge", "the largest values and the smallest at each place in turn", _ends(n, config["k"]), n)
    rising = np.arange(n)
    yield _block("edge", "rising and falling rows", np.stack([ONE + rising, ONE + rising[::-1]]), n)
    if config["total_order"]:
        nan = [0x7E00, MINUS | 0x7E00, 0x7C01, 0x7FFF, 0xFFFF, 0xFC01]
        yield _cases("edge", "NaN beyond infinity, ordered by its payload", n, [nan, [*ends, *nan]], "D-kllm-27")
        left = [ONE] * config["k"] + [MINUS] * (n - config["k"])
        yield _cases("edge", "-0 remains at both roots", n, [left])


def _ends(n: int, k: int) -> np.ndarray:
    """Rows (ceil(n / k), n): k values exceed the others; either tree pops every leaf."""
    rows = -(-n // k)
    words = np.broadcast_to(ONE + np.arange(n) % 7, (rows, n)).copy()
    place = np.arange(n)
    for row in range(rows):
        words[row, place // k == row] += 0x1000
        words[row, place // k == (row + 1) % rows] |= MINUS
    return words


def _cases(kind: Kind, why: str, n: int, rows: Any, decision: str = "") -> Cases:
    """Rows of words, repeated to n values."""
    return _block(kind, why, np.array([[row[i % len(row)] for i in range(n)] for row in rows]), n, decision)


def _block(kind: Kind, why: str, words: np.ndarray, n: int, decision: str = "") -> Cases:
    return Cases(kind, why, {"x": words}, decision)
