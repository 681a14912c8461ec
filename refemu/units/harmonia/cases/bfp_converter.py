"""Golden cases of bfp_converter, and how a matrix becomes columns: blocks as [harmonia §IV-C, Fig. 14] has them.

This module describes stimuli only; the descriptor, and with it every answer, is in bfp_converter.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refemu.units.unit import Cases, Config
from refemu.units.unit_cases import Seeds, words

LANES, GROUP, COLUMNS = 8, 32, 16
TOKEN, V = range(2)
NAMES = ("x", "valid", "kind", "m", "last", "column_valid")
Column = tuple[tuple[int, ...], int, int]  #: words, mask, last
Clock = tuple[tuple[int, ...], int, int, int, int, int]
IDLE: Clock = ((0,) * LANES, 0, TOKEN, 1, 0, 0)


class Block(NamedTuple):
    """What one bank holds, and where it stood in the matrix."""

    row: int
    column: int
    columns: list[Column]


def blocks(matrix: np.ndarray, kind: int) -> Iterator[Block]:
    """The blocks of a (tokens, channels) matrix, row by row: 8 x 32 of kind token, 32 x 16 of kind V."""
    height, width = (LANES, GROUP) if kind == TOKEN else (GROUP, COLUMNS)
    for row in range(0, matrix.shape[0], height):
        for column in range(0, matrix.shape[1], width):
            part = matrix[row : row + height, column : column + width]
            yield Block(row, column, token_columns(part) if kind == TOKEN else v_columns(part))


def token_columns(part: np.ndarray) -> list[Column]:
    """Up to 8 rows, up to 32 columns, as they leave the array."""
    mask, width = (1 << part.shape[0]) - 1, part.shape[1]
    return [(lanes(part[:, j]), mask, int(j == width - 1 and width < GROUP)) for j in range(width)]


def v_columns(part: np.ndarray) -> list[Column]:
    """Up to 32 rows in loops of 8, each of 16 columns; columns beyond the matrix have no valid lane."""
    loops = [part[row : row + LANES] for row in range(0, part.shape[0], LANES)]
    found = []
    for number, loop in enumerate(loops):
        mask = (1 << loop.shape[0]) - 1
        for c in range(COLUMNS):
            ends = c == COLUMNS - 1 and number == len(loops) - 1 and len(loops) * LANES < GROUP
            there = c < part.shape[1]
            found.append((lanes(loop[:, c]) if there else (0,) * LANES, mask * there, int(ends)))
    return found


def lanes(values: np.ndarray) -> tuple[int, ...]:
    """Up to eight words, filled up with zeros."""
    return (*values.tolist(), *[0] * (LANES - len(values)))


def clocks(matrix: np.ndarray, kind: int, m: int = 8) -> list[Clock]:
    """All columns of a matrix as clocks."""
    return [(x, valid, kind, m, last, 1) for block in blocks(matrix, kind) for x, valid, last in block.columns]


def cases(kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    if kind == "paper":
        figure = np.zeros((8, 32), np.uint16)
        figure[:, :3] = 0x4648, 0xBE48, 0x3268
        figure[:, 3:] = _words("figure", (8, 29), seed)
        yield _case(
            kind,
            "a block of 8 tokens, every row beginning with the group of [harmonia Fig. 3]",
            [clocks(figure, TOKEN), 33],
        )
        yield _case(
            kind,
            "[harmonia §IV-C, Fig. 14] a V block: 8 rows in each of 4 loops, 16 columns",
            [clocks(_words("v", (32, 16), seed), V), 65],
        )
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
    return Cases(
        "random",
        "two token blocks of full groups, the second compared while the first is aligned",
        {"x": x, **{name: np.tile(value, (len(drawn), 1)) for name, value in values}},
    )


def _edge(seed: Seeds) -> Iterator[Cases]:
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
    yield _case(
        "edge",
        "a V block of 13 tokens and 5 channels: two loops, the second partial, columns without lanes",
        [short, 33],
    )
    gaps = [clock for one in clocks(_words("v gaps", (9, 16), seed), V) for clock in (one, (*one[:-1], 0))]
    yield _case(
        "edge",
        "a V block of two loops with a clock without a column behind each, its other inputs unchanged",
        [gaps, 33],
    )
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


def _case(kind: str, why: str, *sequences: list[Any], decision: str = "") -> Cases:
    """A block of cases: clocks, then so many without a column, all filled up to one length."""
    full = [given + [IDLE] * idle for given, idle in sequences]
    length = max(map(len, full))
    return Cases(kind, why, inputs([case + [IDLE] * (length - len(case)) for case in full]), decision)


def inputs(sequences: Sequence[Sequence[Clock]]) -> dict[str, np.ndarray]:
    """Port values of sequences of clocks of one length."""
    return {
        name: np.array([[clock[at] for clock in sequence] for sequence in sequences]) for at, name in enumerate(NAMES)
    }


def legal(config: Config, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values as one block: kind, width and mask of the first clock, no early end."""
    fixed = {name: np.broadcast_to(given[name][:1], given[name].shape) for name in ("valid", "kind", "m")}
    lanes = (fixed["kind"] == V) | (fixed["valid"] != 0)
    return {**given, **fixed, "last": np.zeros_like(given["last"]), "column_valid": given["column_valid"] * lanes}


def mark(config: Mapping[str, Any], given: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Which rows carry which flag."""
    arrives = np.asarray(given["column_valid"]) != 0
    return {"OVERLAP": arrives & (result.out_valid != 0), "STALL": ~result.ready}
