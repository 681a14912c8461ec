"""A matrix as the columns that leave the array block by block, and clocks of the converter's ports. [harmonia §IV-C]"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from refemu.units import Config, find
from refemu.units.harmonia.bfp_converter.registers import COLUMNS, GROUP, LANES, NAME, TOKEN

Column = tuple[tuple[int, ...], int, int]  #: words, mask, last
Clock = tuple[tuple[int, ...], int, int, int, int, int]  #: Values of the input ports in one clock, in the ports' order
IDLE: Clock = ((0,) * LANES, 0, TOKEN, 1, 0, 0)  #: Clock without a column


class Block(NamedTuple):
    """The columns of one bank, and their position in the matrix."""

    row: int
    column: int
    columns: list[Column]


def blocks(matrix: np.ndarray, kind: int) -> Iterator[Block]:
    """The blocks of a (tokens, channels) matrix of words, row by row: 8 x 32 of kind token, 32 x 16 of kind V."""
    height, width = (LANES, GROUP) if kind == TOKEN else (GROUP, COLUMNS)
    for row in range(0, matrix.shape[0], height):
        for column in range(0, matrix.shape[1], width):
            part = matrix[row : row + height, column : column + width]
            yield Block(row, column, _token_columns(part) if kind == TOKEN else _v_columns(part))


def _token_columns(part: np.ndarray) -> list[Column]:
    """Up to 8 rows, up to 32 columns, as they leave the array."""
    mask, width = (1 << part.shape[0]) - 1, part.shape[1]
    return [(_lanes(part[:, j]), mask, int(j == width - 1 and width < GROUP)) for j in range(width)]


def _v_columns(part: np.ndarray) -> list[Column]:
    """Up to 32 rows in loops of 8, each of 16 columns; columns beyond the matrix have no valid lane."""
    loops = [part[row : row + LANES] for row in range(0, part.shape[0], LANES)]
    columns = []
    for number, loop in enumerate(loops):
        mask = (1 << loop.shape[0]) - 1
        for c in range(COLUMNS):
            ends = c == COLUMNS - 1 and number == len(loops) - 1 and len(loops) * LANES < GROUP
            inside = c < part.shape[1]
            columns.append((_lanes(loop[:, c]) if inside else (0,) * LANES, mask * inside, int(ends)))
    return columns


def _lanes(values: np.ndarray) -> tuple[int, ...]:
    """Up to eight words, padded with zeros."""
    return (*values.tolist(), *[0] * (LANES - len(values)))


def clocks(matrix: np.ndarray, kind: int, m: int = 8) -> list[Clock]:
    """Lay out a matrix as the clocks of its columns, block by block. [harmonia §IV-C]

    matrix: uint16 (tokens, channels), fp16 words.
    """
    return [(x, valid, kind, m, last, 1) for block in blocks(matrix, kind) for x, valid, last in block.columns]


def port_values(sequences: Sequence[Sequence[Clock]]) -> dict[str, np.ndarray]:
    """Stack sequences of clocks to arrays for the input ports. [harmonia §IV-C]

    sequences: of one length. Returns by port name: (sequences, clocks), then lanes.
    """
    return {
        port.name: np.array([[clock[place] for clock in sequence] for sequence in sequences])
        for place, port in enumerate(find(NAME).ports(Config()).inputs)
    }
