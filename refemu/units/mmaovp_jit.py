"""Compiled twin of mmaovp.run: same arguments, same Result. Read mmaovp.py first. [olive §4.6]

Every pair is decoded once, by the decoder's twin, and counted as often as the unit decodes it; sums are exact in two
words.
"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.units import ovp_decoder_jit
from refemu.units.mmaovp import CHUNKS, COLUMNS, EDPS, ROWS, TYPES, MmaOvp, Result
from refemu.units.olive_edp import OUTLIER
from refemu.units.unit import admit

MASK = 0xFFFFFFFF


def run(a_pairs: Any, b_pairs: Any, bias_a: Any, bias_b: Any, c: Any, *,
        a_type: str = "ovpi4", b_type: str = "ovpi4", overflow: str = "wrap") -> Result:
    """As `mmaovp.run`."""
    core = MmaOvp(a_type, b_type, overflow)
    arrays = admit(core.name, core.ports.inputs, (a_pairs, b_pairs, bias_a, bias_b, c))
    shape, n = arrays[2].shape, core.k // CHUNKS
    bad: list[np.ndarray] = []
    elements: list[np.ndarray] = []
    for pairs, bias, kind in zip(arrays[:2], arrays[2:4], (TYPES[a_type], TYPES[b_type]), strict=True):
        decoded = ovp_decoder_jit.run(pairs, bias[..., None], normal=kind, outlier=OUTLIER[kind])
        elements += [array.reshape(-1, ROWS, CHUNKS, n) for array in (decoded.exponent, decoded.base_int)]
        bad.append(np.any(decoded.illegal.reshape(-1, ROWS, CHUNKS, n // 2), axis=-1, keepdims=True)[..., 0])
    tiles = elements[0].shape[0]
    d, over = np.empty((*shape, ROWS * COLUMNS), np.int32), np.empty((*shape, ROWS * COLUMNS), np.bool_)
    overflows = _multiply(*elements, arrays[4].reshape(tiles, ROWS * COLUMNS), int(overflow == "saturate"),
                          d.reshape(tiles, ROWS * COLUMNS), over.reshape(tiles, ROWS * COLUMNS))
    illegal = bad[0][:, :, None] | bad[1][:, None]  # of every operation: tile, i, j, chunk
    some = np.count_nonzero(illegal.reshape(tiles, ROWS * COLUMNS * CHUNKS), axis=1)
    operations = illegal.size
    return Result(d, over, (some > 0).reshape(shape), operations, n * operations, n * operations, int(overflows),
                  int(np.count_nonzero(illegal)), operations // EDPS)


@kernel
def _multiply(a_exp, a_int, b_exp, b_int, c, saturate, d, overflow):  # type: ignore[no-untyped-def]
    overflows = np.int64(0)
    for tile in range(a_exp.shape[0]):
        for i in range(a_exp.shape[1]):
            for j in range(b_exp.shape[1]):
                place = i * b_exp.shape[1] + j
                result, flag = np.int64(c[tile, place]), np.int64(0)
                for chunk in range(a_exp.shape[2]):
                    low, high = result, np.int64(0)
                    for k in range(a_exp.shape[3]):
                        product = np.int64(a_int[tile, i, chunk, k]) * np.int64(b_int[tile, j, chunk, k])
                        shift = np.int64(a_exp[tile, i, chunk, k]) + np.int64(b_exp[tile, j, chunk, k])
                        # |product| <= 2^14, and <= 15^2 where shift >= 32, as both are outliers: both words fit.
                        beyond = np.int64(shift >= 32)
                        low += (product << min(shift, 31)) * (1 - beyond)
                        high += (product << max(shift - 32, 0)) * beyond
                    high += low >> 32
                    low &= MASK
                    top = low >> 31  # the sign of the low word: the sum fits if the high word only repeats it
                    over = np.int64(high != -top)
                    end = ((1 << 31) - 1) * np.int64(high >= 0) - (1 << 31) * np.int64(high < 0)
                    keep = 1 - saturate * over
                    result = (low - (top << 32)) * keep + end * (1 - keep)
                    flag |= over
                    overflows += over
                d[tile, place] = result
                overflow[tile, place] = flag != 0
    return overflows
