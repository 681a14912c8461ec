"""Compiled twin of flint_decoder: pairs by a table of eight rows. [olive §4.2]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.olive.flint_decoder import UNIT, FlintDecoder


@twin(UNIT)
def run(decoder: FlintDecoder, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode every code."""
    (codes,) = inputs
    _decode(codes, np.array(decoder.pairs, np.int64), *outputs)
    return (codes.size,)


@kernel
def _decode(codes, pairs, exponent, base_int):  # type: ignore[no-untyped-def]
    for i in range(codes.size):
        code = np.int64(codes[i])
        exponent[i] = pairs[code & 7, 0]
        base_int[i] = pairs[code & 7, 1] * (1 - 2 * (code >> 3))
