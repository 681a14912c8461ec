"""Compiled twin of bfp_pe.run: same arguments, same Result. Read bfp_pe.py first. [harmonia §IV-B, Fig. 13]

`bfp_dot_int`, `bfp_dot` are the compiled forms of the dot products of the same names.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.fp16_jit import plain
from refemu.arith.jit import kernel
from refemu.formats.bfp_dot_jit import bfp_dot, bfp_dot_int
from refemu.units.bfp_accumulator_jit import accumulate
from refemu.units.bfp_pe import LANES, M8M8, M8W4, BfpPe, Result, admitted

__all__ = ["bfp_dot", "bfp_dot_int", "run"]

NIBBLES = (1, 1, 2)  # slots of a group, by mode


def run(
    mode: Any,
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any = None,
    b_exp: Any = 0,
    w_scale: Any = 0,
    clear: Any = 0,
    *,
    partial: str = "fp16",
    product: str = "fp32",
) -> Result:
    """As `bfp_pe.run`."""
    pe = BfpPe(partial, product)
    arrays = admitted(pe.name, pe.ports, mode, clear, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale)
    modes, clears, signs, mags, exponents, codes, b_signs, b_exps, factors = arrays
    shape = modes.shape
    psum, slot = np.empty(shape, np.int32), np.empty(shape, np.uint8)
    rows = (prod(shape[:-1]), shape[-1])
    lanes = [plain(array).reshape(-1, LANES) for array in (signs, mags, codes, b_signs)]
    group_sums(plain(modes).reshape(-1), *lanes, psum.reshape(-1))
    passes = _slots(plain(modes).reshape(rows), plain(clears).reshape(rows), slot.reshape(rows))
    value, acc, flags = accumulate(pe.accumulator, modes, clears, psum, exponents, b_exps, factors)
    groups, fused = psum.size, int(np.count_nonzero(modes == M8M8))
    sums, scaled = groups + fused, int(np.count_nonzero(modes == M8W4))
    return Result(
        acc,
        flags,
        psum,
        value,
        slot,
        int(passes),
        sums,
        LANES * groups,
        LANES * sums,
        sums,
        fused,
        groups,
        scaled,
        groups,
    )


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
