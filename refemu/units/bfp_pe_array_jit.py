"""Compiled twin of bfp_pe_array.run: same arguments, same Result. Read bfp_pe_array.py first. [harmonia §IV-C]

Every PE sums its groups in order, so no cycle is simulated; the counters are their closed forms.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.units import bfp_pe_jit
from refemu.units.bfp_pe_array import COLUMNS, COUNTERS, LANES, ROWS, BfpPeArray, Result, admitted

WIDTHS = (LANES, LANES, 1)  #: of signs, mantissas and exponents


def run(mode: Any, row_valid: Any, col_valid: Any, a_sign: Any, a_mag: Any, a_exp: Any, b: Any, b_sign: Any, b_exp: Any,
        w_scale: Any, *, groups: int = 2, partial: str = "fp16", product: str = "fp32") -> Result:
    """As `bfp_pe_array.run`."""
    array = BfpPeArray(groups, partial, product)
    inputs, shape = admitted(array, (mode, row_valid, col_valid, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale))
    count = prod(shape)
    modes, rows, columns, *fields = inputs
    a = [field.reshape(count, ROWS, 1, groups, width) for field, width in zip(fields[:3], WIDTHS, strict=False)]
    w = [field.reshape(count, 1, COLUMNS, groups, width) for field, width in zip(fields[3:], (*WIDTHS, 1), strict=True)]
    plan = modes.reshape(count, 1, 1, groups)
    pes = bfp_pe_jit.run(plan, a[0], a[1], a[2][..., 0], w[0], w[1], w[2][..., 0], w[3][..., 0], partial=partial,
                         product=product)
    valid = (rows.reshape(count, ROWS, 1) & columns.reshape(count, 1, COLUMNS)).astype(np.bool_)
    acc, flags = (field[..., -1] * valid for field in (pes.acc, pes.flags))
    tiles = [field.reshape(*shape, ROWS * COLUMNS) for field in (acc, flags, valid)]
    last = [field[..., -1].reshape(*shape, ROWS) for field in (acc, valid)]
    slots = np.count_nonzero(plan == 2, axis=-1).reshape(count) + groups
    high, wide = (np.count_nonzero(side.reshape(count, side.shape[-1]), axis=1) for side in (rows, columns))
    hops = np.count_nonzero(columns.reshape(count, COLUMNS)[:, 1:], axis=1)
    adds = groups * high * wide
    per_tile = (slots + COLUMNS - 1, LANES * adds, adds, groups * high * hops, groups * wide, slots * high * wide)
    counts: Any = dict(zip(COUNTERS, (int(integers.total(count)) for count in per_tile), strict=True))
    return Result(acc=tiles[0], flags=tiles[1], valid=tiles[2], col=np.full(shape, COLUMNS - 1, np.uint8),
                  column=last[0], column_valid=last[1], **counts)
