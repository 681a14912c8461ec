"""Compiled twin of bfp_aligner.run: same arguments, same Result. Read bfp_aligner.py first. [harmonia §IV-C]"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.formats.bfp import ROUNDINGS
from refemu.units.bfp_aligner import BfpAligner, Result
from refemu.units.unit import admit

TRUNCATE, HALF_EVEN, HALF_AWAY, FLOOR = range(4)  # places in ROUNDINGS
ERROR, HW, SATURATE = range(3)


def run(
    x: Any,
    emax: Any,
    m: Any,
    *,
    rounding: str = "truncate",
    special: str = "error",
    subnormals: str = "keep",
    zero_sign: str = "keep",
) -> Result:
    """As `bfp_aligner.run`."""
    aligner = BfpAligner(rounding, special, subnormals, zero_sign)
    words, exponents, widths = admit(aligner.name, aligner.ports.inputs, (x, emax, m))
    outputs: dict[str, Any] = {port.name: np.empty(words.shape, port.result_dtype) for port in aligner.ports.outputs}
    widths = np.broadcast_to(widths[..., None], words.shape)
    flags = (
        ROUNDINGS.index(rounding),
        ("error", "hw", "saturate").index(special),
        int(subnormals == "flush"),
        int(zero_sign == "canonical"),
    )
    illegals = _align(
        words.astype(np.int64).reshape(-1),
        exponents.astype(np.int64).reshape(-1),
        widths.astype(np.int64).reshape(-1),
        *flags,
        *(output.reshape(-1) for output in outputs.values()),
    )
    return Result(**outputs, aligned=words.size - int(illegals), illegals=int(illegals))


@kernel
def _align(
    word,
    emax,
    width,
    rounding,
    special,
    flush,
    canonical,  # type: ignore[no-untyped-def]
    sign,
    mantissa,
    illegal,
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
