"""Compiled twin of bfp_pe.run: same arguments, same Result. Read bfp_pe.py first. [harmonia §IV-B, Fig. 13]

`bfp_dot_int`, `bfp_dot` are the compiled forms of the dot products of the same names.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.bfp_dot_jit import bfp_dot, bfp_dot_int
from refemu.units.bfp_accumulator_jit import accumulate
from refemu.units.bfp_pe import LANES, M8M8, M8W4, BfpPe, Result, admitted

__all__ = ["bfp_dot", "bfp_dot_int", "run"]

NIBBLES = (1, 1, 2)  # slots of a group, by mode


def run(mode: Any, a_sign: Any, a_mag: Any, a_exp: Any, b: Any, b_sign: Any = None, b_exp: Any = 0, w_scale: Any = 0,
        clear: Any = 0, *, partial: str = "fp16", product: str = "fp32") -> Result:
    """As `bfp_pe.run`."""
    pe = BfpPe(partial, product)
    arrays = admitted(pe.name, pe.ports, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale)
    modes, clears, signs, mags, exponents, codes, b_signs, b_exps, factors = arrays
    shape = modes.shape
    psum, slot = np.empty(shape, np.int32), np.empty(shape, np.uint8)
    rows = (prod(shape[:-1]), shape[-1])
    lanes = [array.reshape(-1, LANES).copy() for array in (signs, mags, codes, b_signs)]
    group_sums(modes.reshape(-1).copy(), *lanes, psum.reshape(-1))
    passes = _slots(modes.reshape(rows).copy(), clears.reshape(rows).copy(), slot.reshape(rows))
    value, acc, flags = accumulate(pe.accumulator, modes, clears, psum, exponents, b_exps, factors)
    groups, fused = psum.size, int(np.count_nonzero(modes == M8M8))
    sums, scaled = groups + fused, int(np.count_nonzero(modes == M8W4))
    return Result(acc, flags, psum, value, slot, int(passes), sums, LANES * groups, LANES * sums, sums, fused, groups,
                  scaled, groups)


@kernel
def group_sums(mode, a_sign, a_mag, b, b_sign, psum):  # type: ignore[no-untyped-def]
    """psum <- the exact sum of every group, (groups, 32) lanes; M8M8 needs no nibbles, being exact."""
    for i in range(psum.size):
        total, weights = np.int64(0), np.int64(mode[i] == 0)
        for k in range(a_mag.shape[1]):
            code = np.int64(b[i, k])
            magnitude = code - weights * 16 * (code >> 3)  # two's complement of four bits
            sign = np.int64(1) - 2 * (np.int64(a_sign[i, k]) ^ np.int64(b_sign[i, k]))
            total += sign * np.int64(a_mag[i, k]) * magnitude
        psum[i] = total


@kernel
def _slots(mode, clear, slot):  # type: ignore[no-untyped-def]
    """Slot of the pass in which each group is added; returns the number of passes."""
    passes = np.int64(0)
    for d in range(mode.shape[0]):
        last = np.int64(3)
        for g in range(mode.shape[1]):
            changed = np.int64(mode[d, g] != mode[d, max(g - 1, 0)])
            begins = np.int64(changed + np.int64(clear[d, g]) + np.int64(last == 3) > 0)
            passes += begins
            last = (last + 1) * (1 - begins) + NIBBLES[mode[d, g]] - 1
            slot[d, g] = last
    return passes
