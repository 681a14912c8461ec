"""Compiled twin of bfp_pe: exact sums of whole groups, then the accumulator's kernel. [harmonia §IV-B, Fig. 13]

`bfp_dot_int`, `bfp_dot` are the compiled forms of the dot products of the same names.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.harmonia.twins.bfp_dot import bfp_dot, bfp_dot_int
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.bfp_pe import LANES, M8M8, M8W4, UNIT, BfpPe
from refemu.units.harmonia.twins.bfp_accumulator import accumulate

__all__ = ["bfp_dot", "bfp_dot_int", "run"]

NIBBLES = (1, 1, 2)  # slots of a group, by mode


@twin(UNIT)
def run(pe: BfpPe, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All groups; devices side by side."""
    mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale = inputs
    acc, flags, psum, value, slot = outputs
    lanes = [array.reshape(-1, LANES) for array in (a_sign, a_mag, b, b_sign)]
    group_sums(mode.reshape(-1), *lanes, psum.reshape(-1))
    passes = _slots(mode, clear, slot)
    value[:], acc[:], flags[:] = accumulate(pe.accumulator, mode, clear, psum, a_exp, b_exp, w_scale)
    groups, fused = psum.size, int(np.count_nonzero(mode == M8M8))
    sums, scaled = groups + fused, int(np.count_nonzero(mode == M8W4))
    return passes, sums, LANES * groups, LANES * sums, sums, fused, groups, scaled, groups


@kernel
def group_sums(mode, a_sign, a_mag, b, b_sign, psum):  # type: ignore[no-untyped-def]
    """psum <- the exact sum of every group, (groups, 32) lanes; M8M8 needs no nibbles, being exact.

    A magnitude of a has 8 bits and one of b too, so that 32 bits hold every sum. The loop runs `lanes` times, which the
    compiler does not know to be 32: else it would unroll the loop before it could make it a vector.
    """
    lanes = a_mag.shape[1] & 32
    for i in range(psum.size):
        total, weights = np.int32(0), np.int32(16 * (mode[i] == 0))
        for k in range(lanes):
            code = np.int32(b[i, k])
            magnitude = np.int32(code - np.int32(weights * np.int32(code >> np.int32(3))))  # two's complement of 4 bits
            minus = np.int32(np.int32(0) - np.int32(a_sign[i, k] ^ b_sign[i, k]))
            product = np.int32(np.int32(a_mag[i, k]) * magnitude)
            total = np.int32(total + np.int32(np.int32(product ^ minus) - minus))
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
