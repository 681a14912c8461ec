"""A whole matrix through bfp_converter, as a stream of blocks, and its clocks. [harmonia §IV-C, Fig. 14]"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units import Config, find
from refemu.units.declaration import DeclaredState
from refemu.units.harmonia.bfp_aligner import Rounding, Special, Subnormals, ZeroSign
from refemu.units.harmonia.bfp_converter.bfp_converter import (
    COLUMNS,
    GROUP,
    KINDS,
    LANES,
    NAME,
    TOKEN,
    BfpConverter,
    Kind,
    V,
)

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


@dataclass(frozen=True, eq=False)
class Conversion:
    """Codes of a matrix, and counters of the stream of blocks that made them."""

    tensor: BfpTensor  #: codes of the matrix
    blocks: int  #: blocks of the stream
    cycles: int  #: clocks from the first column to the last aligned one
    compare_cycles: int  #: clocks with a column
    align_cycles: int  #: clocks with an aligned column
    comparisons: int  #: comparators used
    aligned: int  #: elements aligned

    def equals(self, other: object) -> bool:
        """Whether codes and counters are equal."""
        if not isinstance(other, Conversion):
            return False
        names = ("blocks", "cycles", *BfpConverter.counters)
        return self.tensor.equals(other.tensor) and all(getattr(self, n) == getattr(other, n) for n in names)


def require_matrix(x: ArrayLike, kind: Kind, m: int, *options: Any) -> tuple[np.ndarray, Bfp]:
    """The matrix of `convert`, and the format of its codes."""
    require_choice(kind, KINDS, NAME, "kind")
    require_int(m, 1, 11, NAME, "m")
    values = np.asarray(x)
    if values.dtype != np.float16 or values.ndim != 2 or not values.size:
        raise RefusedType(f"{NAME}: x must be a nonempty float16 (tokens, channels), got {values.dtype} {values.shape}")
    return np.ascontiguousarray(values), Bfp(m, GROUP, *options)


def _place(state: DeclaredState, origin: Block, codes: list[np.ndarray]) -> None:
    """Write the elements that left in one clock to their places in the matrix."""
    row = origin.row + (LANES * state.subgroup if state.out_kind == V else 0)
    for lane in range(LANES):
        if state.out_valid >> lane & 1:
            for array, values in zip(codes, (state.sign, state.mantissa, state.exponent), strict=True):
                array[row + lane, origin.column + state.element] = values[lane]


def convert(
    x: ArrayLike,
    *,
    kind: Kind = "token",
    m: int = 8,
    rounding: Rounding = "truncate",
    special: Special = "error",
    subnormals: Subnormals = "keep",
    zero_sign: ZeroSign = "keep",
) -> Conversion:
    """Convert a whole matrix, as a stream of blocks through the stepped unit. [harmonia §IV-C, Fig. 14]

    Blocks follow each other row by row. The tensor equals `Bfp(m).encode(x, axis)` with axis 1 for "token", 0 for "v".

    x: float16 (tokens, channels), at least one of each. Raises Refused: an option is unknown, or a value infinite or
    NaN and not admitted. Raises RefusedType: `x` is not a float16 matrix with elements.
    """
    values, fmt = require_matrix(x, kind, m, rounding, special, subnormals, zero_sign)
    fmt.validated(values, False, NAME)  # an error names the element of x, not the lane and clock
    converter = BfpConverter(rounding, special, subnormals, zero_sign)
    stream = list(blocks(values.view(np.uint16), KINDS.index(kind)))
    codes = [np.zeros(values.shape, np.int64) for _ in range(3)]
    origins = iter(stream)
    origin = next(origins)
    for state in _clocks(converter, [column for block in stream for column in block.columns], KINDS.index(kind), m):
        if "align" in state.event or "done" in state.event:
            _place(state, origin, codes)
        if "done" in state.event:
            origin = next(origins, origin)
    axis = 1 - KINDS.index(kind)
    exponent = codes[2][:, ::GROUP] if axis else codes[2][::GROUP]
    state = converter.state
    return Conversion(
        fmt.tensor(codes[0], codes[1], exponent, axis),
        len(stream),
        state.index + 1,
        *(getattr(state, name) for name in BfpConverter.counters),
    )


def _clocks(converter: BfpConverter, columns: list[Column], kind: int, m: int) -> Iterator[DeclaredState]:
    """Clocks: every column as soon as a bank is free, then clocks without a column until the last block is out."""
    for x, valid, last in columns:
        while not converter.state.ready:
            yield converter.step(x, 0, TOKEN, m, 0, 0)
        yield converter.step(x, valid, kind, m, last, 1)
    while converter.state.aligning.words:
        yield converter.step((0,) * LANES, 0, TOKEN, m, 0, 0)
