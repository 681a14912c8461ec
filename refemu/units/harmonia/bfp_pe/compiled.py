"""Compiled form of bfp_pe: exact sums of whole groups, then the accumulator's kernel. [harmonia §IV-B, Fig. 13]

`bfp_dot_int`, `bfp_dot` are the compiled forms of the dot products of the same names.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.harmonia.compiled.bfp_dot import bfp_dot, bfp_dot_int
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.bfp_pe import LANES, M8M8, M8W4, UNIT, BfpPe
from refemu.units.harmonia.kernels.accumulator import accumulate, sum_groups

__all__ = ["bfp_dot", "bfp_dot_int", "run"]

NIBBLES = (1, 1, 2)  # slots of a group, by mode


@compiled_run(UNIT)
def run(pe: BfpPe, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all groups."""
    mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale = inputs
    acc, flags, psum, value, slot, latched, *files, todo = outputs
    for register, array in zip(files, (a_sign, a_mag, a_exp) * 2, strict=True):
        register[:] = array
    low = np.empty_like(psum)
    for nibbles, sums in ((b & 15, low), (b, psum)):
        lanes = [array.reshape(-1, 1, LANES) for array in (a_sign, a_mag, nibbles, b_sign)]
        sum_groups(mode.reshape(-1, 1), *lanes, sums.reshape(-1, 1, 1, 1))
    latched[:], todo[:] = 0, 0
    passes = _slots(mode, clear, psum, low, slot, latched)
    value[:], acc[:], flags[:] = accumulate(pe.accumulator, mode, clear, psum, a_exp, b_exp, w_scale)
    groups, fused = psum.size, int(np.count_nonzero(mode == M8M8))
    cycles, scaled = groups + fused, int(np.count_nonzero(mode == M8W4))
    return passes, cycles, LANES * groups, LANES * cycles, cycles, fused, groups, scaled, groups


@kernel
def _slots(mode, clear, psum, low, slot, latched):  # type: ignore[no-untyped-def]
    """Fill the slot in which each group is added, and the sums of the sub-PEs; return the number of passes.

    low: sums of the low nibbles, which have their own slots in M8M8.
    """
    passes = np.int64(0)
    for d in range(mode.shape[0]):
        last = np.int64(3)
        for g in range(mode.shape[1]):
            changed = np.int64(mode[d, g] != mode[d, max(g - 1, 0)])
            begins = np.int64(changed + np.int64(clear[d, g]) + np.int64(last == 3) > 0)
            passes += begins
            last = (last + 1) * (1 - begins) + NIBBLES[mode[d, g]] - 1
            slot[d, g] = last
            for place in range(4):
                latched[d, g, place] = latched[d, max(g - 1, 0), place]
            if mode[d, g] == 2:
                latched[d, g, last // 2], latched[d, g, 2 + last // 2] = (psum[d, g] - low[d, g]) >> 4, low[d, g]
            else:
                latched[d, g, last] = low[d, g]
    return passes
