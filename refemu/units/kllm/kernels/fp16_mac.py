"""Steps of an IEEE 754 multiply-accumulate unit in int64, as a datapath has them: align, add, normalize, round.

If the terms are more than GAP places apart, the lower one is a sticky bit. A rounding packs its word in the low 16
bits and its flags above. [kllm §IV-A]
"""

import numpy as np

from refemu.arith.jit import callee, kernel

GAP = 36  #: places between the exponents of product and addend from which on the lower term is sticky
NV, OF, UF, NX = 16, 4, 2, 1  #: flags
HALF_EVEN, FLOOR, CEIL, HALF_AWAY = 0, 2, 3, 4  #: codes of directions; 1 truncates


@kernel
def multiply_add_all(a, b, acc, mode, fuses, before, quiet, product, y, flags):
    """All steps. mode: code of each step's direction. product, y, flags: outputs."""
    for i in range(a.size):
        x, w, c, code = np.int64(a[i]), np.int64(b[i]), np.int64(acc[i]), np.int64(mode[i])
        first = times(x, w, code, before)
        product[i] = first & 0xFFFF
        if fuses:
            both = fused(x, w, c, code, before, quiet)
            flags[i] = both >> 16
        else:
            both = fused(first & 0xFFFF, np.int64(0x3C00), c, code, before, quiet)  # times 1: only a sum
            flags[i] = (both | first) >> 16
        y[i] = both & 0xFFFF


@callee
def times(x, w, mode, before):
    """x * w: word and flags."""
    sign = (x ^ w) & 0x8000
    p, q = x & 0x7FFF, w & 0x7FFF
    if p > 0x7C00 or q > 0x7C00:
        return 0x7E00 | (signals(x) | signals(w)) << 16
    if p == 0x7C00 or q == 0x7C00:
        if p == 0 or q == 0:
            return 0x7E00 | NV << 16
        return sign | 0x7C00
    return rounded(significand(x) * significand(w), place(x) + place(w), sign, mode, before)


@callee
def fused(x, w, c, mode, before, quiet):
    """x * w + c: word and flags."""
    sign = (x ^ w) & 0x8000
    p, q, r = x & 0x7FFF, w & 0x7FFF, c & 0x7FFF
    undefined = (p == 0x7C00 and q == 0) or (p == 0 and q == 0x7C00)
    if p > 0x7C00 or q > 0x7C00 or r > 0x7C00 or undefined:
        raised = signals(x) | signals(w) | signals(c)
        if undefined and not (quiet and r > 0x7C00):
            raised |= NV
        return 0x7E00 | raised << 16
    if p == 0x7C00 or q == 0x7C00:
        if r == 0x7C00 and c & 0x8000 != sign:
            return 0x7E00 | NV << 16
        return sign | 0x7C00
    if r == 0x7C00:
        return c
    zero = sign
    if c & 0x8000 != sign:
        zero = np.int64(0x8000) * (mode == FLOOR)
    return aligned(significand(x) * significand(w), place(x) + place(w), significand(c), place(c), zero, mode, before)


@kernel
def aligned(n, e, m, f, zero, mode, before):
    """n * 2**e + m * 2**f, rounded."""
    if n == 0 or m == 0:
        return rounded(n + m, e * (n != 0) + f * (n == 0), zero, mode, before)
    apart = e - f
    if apart > GAP:
        return rounded((n << GAP) + (1 - 2 * (m < 0)), e - GAP, zero, mode, before)
    if apart >= 0:
        return rounded((n << apart) + m, f, zero, mode, before)
    if apart >= -GAP:
        return rounded(n + (m << -apart), e, zero, mode, before)
    return rounded((m << GAP) + (1 - 2 * (n < 0)), f - GAP, zero, mode, before)


@callee
def rounded(n, e, zero, mode, before):
    """n * 2**e as word and flags; zero: the word where n is 0."""
    if n == 0:
        return np.int64(zero)
    sign = np.int64(n < 0)
    size = abs(n)
    top = np.int64(e)
    for step in (32, 16, 8, 4, 2, 1):
        long = np.int64(size >> step != 0) * step
        size >>= long
        top += long
    size = abs(n)
    low = max(top, np.int64(-14)) - 10
    cut, rest = divided(size, low - e)
    word = cut + goes_up(cut, rest, sign, mode) + (low + 24) * 0x400
    if word >= 0x7C00:
        kept = mode == 1 or (mode == FLOOR and sign == 0) or (mode == CEIL and sign == 1)
        return sign << 15 | (0x7C00 - np.int64(kept)) | (OF | NX) << 16
    tiny = top < -14
    if top == -15 and not before:
        narrow, over = divided(size, low - e - 1)
        tiny = narrow + goes_up(narrow, over, sign, mode) < 0x800
    raised = np.int64(rest != 0) * (NX + UF * np.int64(tiny))
    return sign << 15 | word | raised << 16


@callee
def divided(size, shift):
    """Quotient by 2**shift, and the remainder: 0 none, 1 below a half, 2 a half, 3 above."""
    if shift <= 0:
        return size << -shift, np.int64(0)
    if shift > 62:
        return np.int64(0), np.int64(1)
    rest = size & ((np.int64(1) << shift) - 1)
    half = np.int64(1) << (shift - 1)
    return size >> shift, np.int64(rest != 0) + np.int64(rest >= half) + np.int64(rest > half)


@callee
def goes_up(cut, rest, sign, mode):
    """1 where the magnitude is rounded up."""
    if mode == HALF_EVEN:
        return np.int64(rest + (cut & 1) > 2)
    if mode == HALF_AWAY:
        return np.int64(rest >= 2)
    outward = (mode == FLOOR and sign == 1) or (mode == CEIL and sign == 0)
    return np.int64(outward and rest != 0)


@callee
def significand(word):
    """Significand of a finite word, with its sign."""
    field = word >> 10 & 31
    size = word & 0x3FF | np.int64(field != 0) << 10
    return size * (1 - 2 * (word >> 15))


@kernel
def place(word):
    """Exponent of the last bit of a significand."""
    return max(word >> 10 & 31, 1) - 25


@callee
def signals(word):
    """NV where a word is a signalling NaN."""
    return np.int64(word & 0x7FFF > 0x7C00 and word & 0x200 == 0) * NV
