"""A whole matrix through bfp_converter, as a stream of blocks. [harmonia §IV-C, Fig. 14]"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units.declaration import DeclaredState
from refemu.units.harmonia.bfp_aligner import Rounding, Special, Subnormals, ZeroSign
from refemu.units.harmonia.bfp_converter.bfp_converter import BfpConverter
from refemu.units.harmonia.bfp_converter.columns import Block, Column, blocks
from refemu.units.harmonia.bfp_converter.registers import GROUP, KINDS, LANES, NAME, TOKEN, Kind, V


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
