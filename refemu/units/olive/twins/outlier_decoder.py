"""Compiled twin of outlier_decoder.run: same arguments, same Result. Read outlier_decoder.py first. [olive §4.2]"""

from typing import Any

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.outlier_decoder import OutlierDecoder, Result
from refemu.units.unit import admit


def run(code: Any, bias: Any, *, exp_bits: int = 2, man_bits: int = 1, exponent_bits: int | None = None) -> Result:
    """As `outlier_decoder.run`."""
    decoder = OutlierDecoder(exp_bits, man_bits, exponent_bits)
    codes, biases = admit(decoder.name, decoder.ports.inputs, (code, bias))
    exponent, base_int = np.empty(codes.size, np.uint8), np.empty(codes.size, np.int8)
    _decode(codes.reshape(-1), biases.reshape(-1), exp_bits, man_bits, decoder.exponent_bits, exponent, base_int)
    return Result(exponent.reshape(codes.shape), base_int.reshape(codes.shape), codes.size)


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
