"""Compiled twin of bfp_aligner: one loop over all lanes, options as numbers. [harmonia §IV-C]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.harmonia.bfp import ROUNDINGS
from refemu.units.derived import Arrays, twin
from refemu.units.harmonia.bfp_aligner import UNIT, BfpAligner

TRUNCATE, HALF_EVEN, HALF_AWAY, FLOOR = range(4)  # places in ROUNDINGS
ERROR, HW, SATURATE = range(3)


@twin(UNIT)
def run(aligner: BfpAligner, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """All lanes."""
    x, emax, m = (array.astype(np.int64) for array in inputs)
    options = (
        ROUNDINGS.index(aligner.rounding),
        ("error", "hw", "saturate").index(aligner.special),
        int(aligner.subnormals == "flush"),
        int(aligner.zero_sign == "canonical"),
    )
    widths = np.repeat(m, x.shape[1])
    illegals = _align(x.reshape(-1), emax.reshape(-1), widths, *options, *(array.reshape(-1) for array in outputs))
    return x.size - int(illegals), illegals


@kernel
def _align(  # type: ignore[no-untyped-def]
    word, emax, width, rounding, special, flush, canonical, sign, mantissa, illegal
):
    illegals = np.int64(0)
    for i in range(word.size):
        u = word[i]
        u -= np.int64(special == SATURATE) * np.int64(u & 0x7FFF == 0x7C00)  # infinity as the word below it
        negative, field = u >> 15, (u >> 10) & 31
        bad = field > emax[i] or (field == 31 and special != HW)
        normal = min(field, 1)
        significand = ((u & 0x3FF) | (normal << 10)) * max(normal, 1 - flush)
        shift = max(11 - width[i] + max(emax[i], 1) - max(field, 1), 0)
        cut = (np.int64(1) << shift) - 1
        half = (np.int64(1) << shift) >> 1
        below = min(half, 1)
        add = np.int64(0)
        if rounding == HALF_EVEN:
            add = half - below + ((significand >> shift) & below)
        elif rounding == HALF_AWAY:
            add = half
        elif rounding == FLOOR:
            add = cut * negative
        magnitude = min((significand + add) >> shift, (np.int64(1) << width[i]) - 1)
        legal = 1 - np.int64(bad)
        mantissa[i] = magnitude * legal
        sign[i] = negative * legal * max(min(magnitude, 1), 1 - canonical) != 0
        illegal[i] = bad
        illegals += 1 - legal
    return illegals
