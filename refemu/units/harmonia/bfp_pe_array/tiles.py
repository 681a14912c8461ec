"""Tiles of bfp_pe_array: operands from tensors, checks, and the drawing. [harmonia §IV-A, §IV-C, Fig. 14a]"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.formats.harmonia.bfp_dot import rows, weight_rows
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, number
from refemu.units.harmonia.bfp_pe import require_fields
from refemu.units.harmonia.sub_pe import LANES

ROWS, COLUMNS = 8, 16  #: Rows and columns of the array [harmonia §IV-A]


def tile(a: BfpTensor, b: BfpTensor | GroupIntTensor) -> dict[str, np.ndarray]:
    """Lay out a x b as port values: rows of `a` by rows of `b`, whose reduction may be either axis. [harmonia §IV-A]

    Returns by port name. Raises Refused: a tensor has more rows than the array, or other widths or groups.
    """
    whole = operands(a, b)
    sizes = {"rows": (len(whole["a_exp"]), ROWS), "columns": (len(whole["b_exp"]), COLUMNS)}
    for thing, (count, most) in sizes.items():
        if count > most:
            raise Refused(f"bfp_pe_array: {thing} must be at most {most}, got {count}")
    return {
        "mode": whole.pop("mode"),
        "row_valid": (np.arange(ROWS) < sizes["rows"][0]).astype(np.int64),
        "col_valid": (np.arange(COLUMNS) < sizes["columns"][0]).astype(np.int64),
        **{name: _padded(each, ROWS if name.startswith("a_") else COLUMNS) for name, each in whole.items()},
    }


def operands(a: BfpTensor, b: BfpTensor | GroupIntTensor) -> dict[str, np.ndarray]:
    """Lay out a x b of any size in the fields of the ports. [harmonia §IV-A]

    Returns int64: `mode` (groups,), `a_sign` and `a_mag` (tokens, groups * 32), `a_exp` (tokens, groups), `b` and
    `b_sign` (outputs, groups * 32), `b_exp` and `w_scale` (outputs, groups). Raises Refused: the tensors have other
    widths or groups, or reductions of different lengths.
    """
    left, bits = rows(a, "bfp_pe_array"), getattr(b.format, "mantissa_bits", 0)
    right = weight_rows(b, LANES) if isinstance(b, GroupIntTensor) else rows(b, "bfp_pe_array")
    if (left.length, left.group) != (right.length, LANES) or a.format.mantissa_bits != 8 or bits not in (0, 4, 8):
        raise Refused(
            f"bfp_pe_array: 8-bit mantissas by INT4, 4 or 8 bits in groups of {LANES} and one length are "
            f"needed, got {a} and {b}"
        )
    mode = {0: M8W4, 4: M8M4, 8: M8M8}[bits]
    codes, none = (right.values & 15 if mode == M8W4 else abs(right.values)), 0 * right.power
    fields = {
        "mode": np.full(left.power.shape[1], mode),
        "a_sign": left.values < 0,
        "a_mag": abs(left.values),
        "a_exp": _exponents(a),
        "b": codes,
        "b_sign": 0 * codes if mode == M8W4 else right.values < 0,
        "b_exp": _exponents(b) if isinstance(b, BfpTensor) else none,
        "w_scale": none if right.scale is None else right.scale.view(np.uint16),
    }
    return {name: each.astype(np.int64) for name, each in fields.items()}


def _exponents(tensor: BfpTensor) -> np.ndarray:
    """The tensor's own exponent codes, (rows, groups)."""
    along = tensor.exponent.T if tensor.axis == 0 else tensor.exponent
    return along.reshape(-1, along.shape[-1])


def _padded(values: np.ndarray, count: int) -> np.ndarray:
    """`count` rows end to end, missing rows 0."""
    whole = np.zeros((count, values.shape[1]), np.int64)
    whole[: len(values)] = values
    return whole.reshape(-1)


def require_tile(name: str, groups: int, inputs: Mapping[str, Any]) -> None:
    """Reject bits set in fields of columns that the mode of a group does not have; inputs: by port, any axes."""
    shape = np.shape(inputs["row_valid"])[:-1]
    mode = np.broadcast_to(np.reshape(inputs["mode"], (*shape, 1, groups)), (*shape, COLUMNS, groups))
    b, b_sign = (np.reshape(inputs[port], (*mode.shape, LANES)) for port in ("b", "b_sign"))
    b_exp, w_scale = (np.reshape(inputs[port], mode.shape) for port in ("b_exp", "w_scale"))
    require_fields(name, mode, b, b_sign, b_exp, w_scale)


def draw(state: Any) -> str:
    """Group (and slot) of every column in this cycle, then a line of accumulators per row of the tile."""
    work = [f"{work.group}.{work.slot}" if work.group >= 0 else "-" for work in state.work]
    words = [[float(number(pe.acc)) for pe in state.pes[row * COLUMNS : (row + 1) * COLUMNS]] for row in range(ROWS)]
    leaving = f", column {state.col} leaves" if any(state.column_valid) else ""
    return "\n".join(
        [
            f"cycle {state.cycle}{leaving}",
            "group.slot " + "".join(f"{text:>10}" for text in work),
            *(
                f"row {row}      " + "".join(f"{value:>10.4g}" for value in values)
                for row, values in enumerate(words)
                if state.row_valid[row]
            ),
        ]
    )
