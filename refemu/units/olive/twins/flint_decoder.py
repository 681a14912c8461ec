"""Compiled twin of flint_decoder.run: same arguments, same Result. Read flint_decoder.py first. [olive §4.2]"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.flint_decoder import FLINT4_PAIRS, FlintDecoder, Pairs, Result
from refemu.units.unit import admit


def run(code: Any, *, pairs: Pairs = FLINT4_PAIRS) -> Result:
    """As `flint_decoder.run`."""
    decoder = FlintDecoder(pairs)
    (codes,) = admit(decoder.name, decoder.ports.inputs, (code,))
    exponent, base_int = np.empty(codes.size, np.uint8), np.empty(codes.size, np.int8)
    _decode(codes.reshape(-1), np.array(decoder.pairs, np.int64), exponent, base_int)
    return Result(exponent.reshape(codes.shape), base_int.reshape(codes.shape), codes.size)


@kernel
def _decode(codes, pairs, exponent, base_int):  # type: ignore[no-untyped-def]
    for i in range(codes.size):
        code = np.int64(codes[i])
        exponent[i] = pairs[code & 7, 0]
        base_int[i] = pairs[code & 7, 1] * (1 - 2 * (code >> 3))
