"""Compiled form of bfp_pe_array: every PE sums its groups in order, and no cycle is simulated. [harmonia §IV-C]

Counters are closed forms. `tile_sums` is shared with the compiled accelerator.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from refemu.arith import integers
from refemu.arith.fp16_compiled import plain
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.bfp_accumulator import Accumulator
from refemu.units.harmonia.bfp_pe_array import COLUMNS, LANES, ROWS, UNIT, BfpPeArray
from refemu.units.harmonia.kernels.accumulator import accumulate, sum_groups

PART = 1 << 15  #: partial sums accumulated at once, approximately: they fit in a second-level cache


@compiled_run(UNIT)
def run(array: BfpPeArray, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all tiles."""
    rows, columns = inputs[1:3]
    count, groups = len(rows), array.groups
    plan, lanes = inputs[0].reshape(count, groups), (groups * LANES, groups * LANES, groups)
    a = [field.reshape(count, ROWS, width) for field, width in zip(inputs[3:6], lanes, strict=True)]
    w = [field.reshape(count, COLUMNS, width) for field, width in zip(inputs[6:], (*lanes, groups), strict=True)]
    inside = (rows[:, :, None] & columns[:, None, :]).astype(np.bool_)
    sums, raised = (field * inside for field in tile_sums(array.accumulator, plan, *a, *w))
    acc, flags, valid, col, column, column_valid = outputs
    acc[:], flags[:], valid[:] = (field.reshape(count, ROWS * COLUMNS) for field in (sums, raised, inside))
    col.fill(COLUMNS - 1)
    column[:], column_valid[:] = sums[..., -1], inside[..., -1]
    slots = np.count_nonzero(plan == 2, axis=-1) + groups
    high, wide = (np.count_nonzero(side, axis=1) for side in (rows, columns))
    hops = (np.arange(COLUMNS) * columns).max(axis=1)  # to the last column of the tile (D-harmonia-44)
    adds = groups * high * wide
    per_tile = (slots + COLUMNS - 1, LANES * adds, adds, groups * high * hops, groups * wide, slots * high * wide)
    return [int(integers.total(counts)) for counts in per_tile]


def tile_sums(
    device: Accumulator,
    mode: np.ndarray,
    a_sign: np.ndarray,
    a_mag: np.ndarray,
    a_exp: np.ndarray,
    b: np.ndarray,
    b_sign: np.ndarray,
    b_exp: np.ndarray,
    w_scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Accumulators (float32 words) and flags after the last group of every element of tiles of one size, (T, M, N).

    mode: uint8 (T, G). a_sign, a_mag: uint8 (T, M, K); a_exp: uint8 (T, M, G). b, b_sign: uint8 (T, N, K); b_exp: uint8
    and w_scale: uint16 (T, N, G). K elements are G groups, the last may be short. Fields as in bfp_pe.
    """
    tiles, groups = mode.shape
    shape = tiles, a_mag.shape[1], b.shape[1]
    acc, flags = np.empty(shape, np.uint32), np.empty(shape, np.uint8)
    step = max(1, PART // max(1, prod(shape[1:]) * groups))
    for first in range(0, tiles, step):
        some = np.s_[first : first + step]
        psum = np.empty((len(mode[some]), *shape[1:], groups), np.int32)
        sum_groups(*(plain(field[some]) for field in (mode, a_sign, a_mag, b, b_sign)), psum)
        modes = np.broadcast_to(mode[some, None, None], psum.shape)
        factors = np.broadcast_to(w_scale[some, None], psum.shape)
        _, sums, seen = accumulate(
            device, modes, np.zeros_like(modes), psum, a_exp[some, :, None], b_exp[some, None], factors
        )
        acc[some], flags[some] = sums[..., -1], seen[..., -1]
    return acc, flags
