"""Compiled twin of ovp_decoder: every path is computed, and masks of 0 and 1 select. [olive §4.2, Fig. 6b]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.jit import kernel
from refemu.units.derived import Arrays, twin
from refemu.units.olive.ovp_decoder import UNIT, OvpDecoder


@twin(UNIT)
def run(decoder: OvpDecoder, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Both lanes of every pair."""
    settings = decoder.width, decoder.outlier[1], decoder.exponent_bits, int(decoder.normal == "flint4")
    return inputs[0].size, *_decode(*inputs, *settings, *outputs)


@kernel
def _decode(  # type: ignore[no-untyped-def]
    words, biases, width, man_bits, exponent_bits, is_flint, exponent, base_int, illegal
):
    identifier, modulus, hidden = 1 << (width - 1), (1 << exponent_bits) - 1, 1 << man_bits
    outliers = np.int64(0)
    illegal_pairs = np.int64(0)
    for i in range(words.size):
        word = np.int64(words[i])
        bias = np.int64(biases[i])
        bad = np.int64(0)
        for lane in range(2):
            code = (word >> (lane * width)) & (2 * identifier - 1)
            partner = (word >> ((1 - lane) * width)) & (2 * identifier - 1)
            magnitude = code & (identifier - 1)
            sign = code >> (width - 1)
            normal = np.int64(partner != identifier)
            # Code 1000 needs no case: the int is masked, and flint and outlier give 0 for magnitude 0.
            not_victim = np.int64(code != identifier)
            low, top = magnitude & 3, is_flint & (magnitude >> 2)
            flint_exponent = top * (4 * np.int64(low == 0) + 2 * np.int64(low == 1))
            flint_int = (low + top * (low + np.int64(low == 0))) * (1 - 2 * sign)
            plain_int = (code - (sign << width)) * (1 - is_flint) + flint_int * is_flint
            outlier_int = (hidden | (magnitude & (hidden - 1))) * np.int64(magnitude != 0) * (1 - 2 * sign)
            outlier_exponent = (bias + (magnitude >> man_bits)) & modulus
            exponent[i, lane] = not_victim * (normal * flint_exponent + (1 - normal) * outlier_exponent)
            base_int[i, lane] = not_victim * (normal * plain_int + (1 - normal) * outlier_int)
            outliers += not_victim * (1 - normal)
            bad |= (1 - normal) * np.int64(magnitude == 0)
        illegal[i] = bad != 0
        illegal_pairs += bad
    return outliers, illegal_pairs
