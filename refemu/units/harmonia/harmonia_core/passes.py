"""Passes of the array in harmonia_core: operands of 8 rows and 16 columns, and codes of 4 and 8 bits in one product.

Paper: [harmonia §III-B, §IV-A (2), §IV-B].
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.units import Lanes, decides
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core.plan import LANES, Kind, Shape

B = 5  #: index of b among the operands of a tile


class Pass(NamedTuple):
    """One pass of the array."""

    mode: Lanes  #: mode of every group
    operands: tuple[list[Any], ...]  #: one tile; or a tile for each row, all in parallel
    words: int  #: nibble planes of groups of B that are read, 128 bits each


def passes(core: Any, state: Any, row: int, column: int) -> list[Pass]:
    """Passes of 8 rows of A and 16 columns of B from `row` and `column` on."""
    shape, tile = core.shape, core.operands(state, row, column)
    if core.b_type != "mixed":
        count = min(COLUMNS, shape.columns - column) * core.groups
        return [Pass((core.mode,) * core.groups, (tile,), count * planes(core.mode))]
    wide = seen(shape, core.groups, state.wide, row, column)
    if core.codes == "rows":
        alone = tuple(_coded(tile, (r,), wide[r], core.modes(wide)) for r in range(len(wide)))
        return [Pass(tuple(core.modes(wide)), alone, words(wide, shape, column))]
    sets: dict[bytes, list[int]] = {}
    for r, codes in enumerate(wide):
        sets.setdefault(codes.tobytes(), []).append(r)
    return [
        Pass(tuple(mode), (_coded(tile, some, wide[some[0]], mode),), words(wide[some[:1]], shape, column))
        for some in sets.values()
        for mode in [core.modes(wide[some])]
    ]


def seen(shape: Shape, groups: int, wide: Sequence[int], row: int, column: int) -> np.ndarray:
    """Which codes of a tile its rows see in 8 bits: bool (rows, 16, groups), false for columns that are missing."""
    count, across = min(ROWS, shape.rows - row), min(COLUMNS, shape.columns - column)
    units = wide_units(shape.kind, shape.columns, groups)
    some = np.array(wide[row * units : (row + count) * units], np.bool_).reshape(count, units)
    whole = np.zeros((count, COLUMNS, groups), np.bool_)
    by_column = some[:, column : column + across, None] if shape.kind == "score" else some[:, None]
    whole[:, :across] = by_column
    return whole


def wide_units(kind: Kind, columns: int, groups: int) -> int:
    """Lanes of port `wide` for a row: keys are stored in 4 or 8 bits token by token, values by group of tokens."""
    return columns if kind == "score" else groups


@decides("D-harmonia-36")
def modes(wide: np.ndarray) -> list[int]:
    """Mode of every group of codes (rows, columns, groups)."""
    return np.where(wide.any(axis=(0, 1)), M8M8, M8M4).tolist()


def planes(mode: int) -> int:
    """Nibbles of a code of B, and slots of a group."""
    return 2 if mode == M8M8 else 1


def words(wide: np.ndarray, shape: Shape, column: int) -> int:
    """Nibble planes of sets of codes (sets, columns, groups): always a high one, and a low one for 8 bits."""
    across = min(COLUMNS, shape.columns - column)
    return int(np.count_nonzero(wide)) + len(wide) * across * wide.shape[2]


def _coded(tile: list[Any], rows: Sequence[int], wide: np.ndarray, mode: Sequence[int]) -> list[Any]:
    """The tile for some rows: unchanged 8-bit codes, else their upper nibble where the mode places it."""
    b = np.array(tile[B]).reshape(*wide.shape, LANES)
    high = np.where(wide[..., None], b, b & 0xF0)
    codes = np.where(np.array(mode)[:, None] == M8M8, high, b >> 4)
    mask = tuple(int(r in rows) for r in range(ROWS))
    return [mask, *tile[1:B], tuple(codes.ravel().tolist()), *tile[B + 1 :]]


def operands(shape: Shape, state: Any, row: int, column: int) -> list[Any]:
    """The array's operands for 8 rows of A and 16 columns of B from `row` and `column` on, zero-padded."""
    groups = -(-shape.inner // LANES)
    rows, columns = min(ROWS, shape.rows - row), min(COLUMNS, shape.columns - column)

    def part(values: Any, width: int, full: int, first: int, count: int, places: int) -> tuple[int, ...]:
        """`count` of `places` rows of `width`, each padded to `full`."""
        padded = np.zeros((places, full), np.int64)
        padded[:count, :width] = np.reshape(values[first * width : (first + count) * width], (count, width))
        return tuple(padded.ravel().tolist())

    wide, narrow = (shape.inner, groups * LANES), (groups, groups)
    a = [
        part(values, *widths, row, rows, ROWS)
        for values, widths in ((state.a_sign, wide), (state.a_mag, wide), (state.a_exp, narrow))
    ]
    b = [
        part(values, *widths, column, columns, COLUMNS)
        for values, widths in ((state.b, wide), (state.b_sign, wide), (state.b_exp, narrow), (state.w_scale, narrow))
    ]
    masks = [tuple(int(i < count) for i in range(places)) for count, places in ((rows, ROWS), (columns, COLUMNS))]
    return [*masks, *a, *b]
