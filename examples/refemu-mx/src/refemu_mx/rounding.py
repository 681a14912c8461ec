"""Kernels that round an integer times a power of two; every compiled form uses them."""

import numpy as np

from refemu.arith.jit import kernel


@kernel
def length(m):  # type: ignore[no-untyped-def]
    """Bits of m >= 0."""
    count = 0
    while m >> count:
        count += 1
    return count


@kernel
def nearest(m, shift):  # type: ignore[no-untyped-def]
    """The integer nearest to m * 2**shift, ties to even; the result must fit 63 bits."""
    if m == 0 or shift < -62:
        return np.int64(0)
    if shift >= 0:
        return m << shift
    whole = m >> -shift
    rest, half = m - (whole << -shift), np.int64(1) << (-shift - 1)
    return whole + np.int64(rest > half or (rest == half and whole & 1 == 1))


@kernel
def code_of(m, e, exp_bits, man_bits, emin):  # type: ignore[no-untyped-def]
    """Magnitude code of m * 2**e, as if the exponent had no end; of an integer the number of last places."""
    place = emin - man_bits
    if exp_bits and m:
        place = max(length(m) - 1 + e, emin) - man_bits
    return ((place - emin + man_bits) << man_bits) + nearest(m, e - place)
