"""Compiled twin of outlier_decoder: both equations without a branch. [olive §4.2]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.olive.outlier_decoder import UNIT, OutlierDecoder


@twin(UNIT)
def run(decoder: OutlierDecoder, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Decode every code at its bias."""
    _decode(*inputs, decoder.exp_bits, decoder.man_bits, decoder.shift_bits, *outputs)
    return (inputs[0].size,)


@kernel
def _decode(codes, biases, exp_bits, man_bits, exponent_bits, exponent, base_int):  # type: ignore[no-untyped-def]
    hidden, fields, modulus = 1 << man_bits, (1 << (exp_bits + man_bits)) - 1, (1 << exponent_bits) - 1
    for i in range(codes.size):
        code = np.int64(codes[i])
        magnitude = code & fields
        sign = code >> (exp_bits + man_bits)
        integer = (hidden | (magnitude & (hidden - 1))) * np.int64(magnitude != 0)
        exponent[i] = (np.int64(biases[i]) + (magnitude >> man_bits)) & modulus
        base_int[i] = integer * (1 - 2 * sign)
