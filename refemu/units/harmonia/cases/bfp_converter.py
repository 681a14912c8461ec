"""Golden cases of bfp_converter: streams of blocks as [harmonia §IV-C, Fig. 14] has them.

This module describes stimuli only; the descriptor, and with it every answer, is in bfp_converter.py.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from refemu.units.stimuli import Seeds, words
from refemu.units.unit import Cases, Config, Kind

LANES, GROUP, COLUMNS = 8, 32, 16
TOKEN, V = range(2)
NAMES = ("x", "valid", "kind", "m", "last", "column_valid")


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    from refemu.units.harmonia.bfp_converter.columns import clocks

    if kind == "paper":
        figure = np.zeros((8, 32), np.uint16)
        figure[:, :3] = 0x4648, 0xBE48, 0x3268
        figure[:, 3:] = _words("figure", (8, 29), seed)
        why = "a block of 8 tokens, every row beginning with the group of [harmonia Fig. 3]"
        yield _case(kind, why, [clocks(figure, TOKEN), 33])
        why = "[harmonia §IV-C, Fig. 14] a V block: 8 rows in each of 4 loops, 16 columns"
        yield _case(kind, why, [clocks(_words("v", (32, 16), seed), V), 65])
    if kind == "edge":
        yield from _edge(seed)
    if kind == "random":
        yield _stream(words("bfp_converter/stream", seed, LANES * 2 * GROUP).reshape(-1, LANES, 2 * GROUP))


def _stream(drawn: np.ndarray) -> Cases:
    """Of words drawn for every seed, 8 tokens by 64 channels."""
    columns = np.arange(2 * GROUP + GROUP + 1) < 2 * GROUP  # then clocks without one
    x = np.zeros((len(drawn), columns.size, LANES), np.uint16)
    x[:, columns] = _near(drawn).swapaxes(1, 2)
    values = zip(
        NAMES[1:], (255 * columns, TOKEN * columns, np.where(columns, 8, 1), 0 * columns, 1 * columns), strict=True
    )
    why = "two token blocks of full groups, the second compared while the first is aligned"
    return Cases("random", why, {"x": x, **{name: np.tile(value, (len(drawn), 1)) for name, value in values}})


def _edge(seed: Seeds) -> Iterator[Cases]:
    from refemu.units.harmonia.bfp_converter.columns import IDLE, clocks

    special = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0xBC04], np.uint16)
    yield _case(
        "edge",
        "zeros, subnormals, field 1 and the largest value; short groups of 1, 2 and 5 columns",
        *[
            [clocks(np.stack([np.roll(special, shift) for shift in range(columns)], axis=1), TOKEN, m), 14]
            for columns, m in ((1, 8), (2, 4), (5, 11))
        ],
        decision="D-harmonia-3",
    )
    yield _case(
        "edge",
        "one token in lane 0, then three of eight: masked lanes neither compare nor come out",
        [clocks(_words("lane0", (1, 8), seed), TOKEN, 4) + clocks(_words("lanes", (3, 8), seed), TOKEN, 8), 9],
    )
    short = clocks(_words("v short", (13, 5), seed), V)
    why = "a V block of 13 tokens and 5 channels: two loops, the second partial, columns without lanes"
    yield _case("edge", why, [short, 33])
    gaps = [clock for column in clocks(_words("v gaps", (9, 16), seed), V) for clock in (column, (*column[:-1], 0))]
    why = "a V block of two loops with a clock without a column behind each, its other inputs unchanged"
    yield _case("edge", why, [gaps, 33])
    first = clocks(_words("v first", (8, 16), seed), V, 4)
    yield _case(
        "edge",
        "token blocks behind a V block: the first waits for the aligner, and the third for a bank",
        [
            first
            + clocks(_words("wait", (8, 3), seed), TOKEN)
            + [IDLE] * 14
            + clocks(_words("third", (2, 4), seed), TOKEN, 4),
            12,
        ],
    )


def _words(name: str, shape: tuple[int, ...], seed: Seeds) -> np.ndarray:
    return _near(words(f"bfp_converter/{name}", seed, prod(shape))[0].reshape(shape))


def _near(drawn: np.ndarray) -> np.ndarray:
    """Finite words, exponents within 8 of each other."""
    return (drawn >> np.uint64(48)).astype(np.uint16) & 0x9FFF | 0x2000


def _case(kind: Kind, why: str, *sequences: list[Any], decision: str = "") -> Cases:
    """A block of cases: clocks, then so many without a column, all filled up to one length."""
    from refemu.units.harmonia.bfp_converter.columns import IDLE, port_values

    full = [clocks + [IDLE] * idle for clocks, idle in sequences]
    length = max(map(len, full))
    return Cases(kind, why, port_values([case + [IDLE] * (length - len(case)) for case in full]), decision)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values as one block: kind, width and mask of the first clock, no early end."""
    fixed = {name: np.broadcast_to(inputs[name][:1], inputs[name].shape) for name in ("valid", "kind", "m")}
    lanes = (fixed["kind"] == V) | (fixed["valid"] != 0)
    return {**inputs, **fixed, "last": np.zeros_like(inputs["last"]), "column_valid": inputs["column_valid"] * lanes}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    arrives = np.asarray(inputs["column_valid"]) != 0
    return {"OVERLAP": arrives & (result.out_valid != 0), "STALL": ~result.ready}
