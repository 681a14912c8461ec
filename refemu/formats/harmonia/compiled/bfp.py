"""Compiled form of `Bfp.encode` and `BfpTensor.decode`: same arguments after the format, equal results.

Read bfp.py first. [harmonia §II-B, Fig. 3]. Plain truncation has kernels of its own, since every activation passes it;
any other option takes the general one.
"""

from math import prod

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import refuse_as
from refemu.arith.jit import callee, kernel
from refemu.arith.jit.tiers import early
from refemu.formats import groups
from refemu.formats.harmonia.bfp import INFINITY, ROUNDINGS, Bfp, BfpTensor

H = np.uint16
STRIP = 256  # columns that are worked on at once: their words of a group of 32 stay in the first-level cache
TRUNCATE, HALF_EVEN, HALF_AWAY, FLOOR = range(4)  # places in ROUNDINGS


def encode(fmt: Bfp, x: ArrayLike, axis: int = -1, *, bits: bool = False) -> BfpTensor:
    """`fmt.encode(x, axis, bits=bits)`."""
    word = np.asarray(x)
    if fmt.special != "error" or word.dtype != (np.uint16 if bits else np.float16):
        word = fmt.validated(x, bits).astype(np.uint16)
    word = np.ascontiguousarray(word).view(np.uint16).reshape(word.shape)
    axis = groups.require_axis(axis, word.shape, "Bfp.encode")
    length: int = word.shape[axis]
    outer, inner = prod(word.shape[:axis]), prod(word.shape[axis + 1 :])
    count = groups.count(length, fmt.group)
    sign, mantissa = np.empty(word.shape, np.uint8), np.empty(word.shape, np.uint16)
    exponent = np.empty((*word.shape[:axis], count, *word.shape[axis + 1 :]), np.uint8)
    words, *outputs = (array.reshape(outer, length, inner) for array in (word, sign, mantissa))
    shared = exponent.reshape(outer, count, inner)
    if (tensor := early(truncate_columns, word.size, lambda: fmt.encode(x, axis, bits=bits))) is not None:
        return tensor
    plain = fmt.rounding == "truncate" and fmt.subnormals == "keep" and fmt.zero_sign == "keep"
    if plain and inner == 1:
        run = truncate_rows_by_32 if fmt.group == 32 else truncate_rows
        rows = [array[:, :, 0] for array in (words, *outputs, shared)]
        largest = run(rows[0], fmt.group, 11 - fmt.mantissa_bits, *rows[1:])
    elif plain:
        largest = truncate_columns(words, fmt.group, 11 - fmt.mantissa_bits, *outputs, shared)
    else:
        rounding, flush = ROUNDINGS.index(fmt.rounding), int(fmt.subnormals == "flush")
        canonical = int(fmt.zero_sign == "canonical")
        largest = encode_any(words, fmt.group, fmt.mantissa_bits, rounding, flush, canonical, *outputs, shared)
    if fmt.special == "error" and largest >= INFINITY:
        refuse_as(fmt.encode, x, axis, bits=bits)
    return BfpTensor.of_codes(fmt, sign, mantissa, exponent, axis)


def dequantize(tensor: BfpTensor) -> np.ndarray:
    """`tensor.dequantize()`."""
    axis, shape = tensor.axis, tensor.shape
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    out = np.empty(shape, np.float64)
    powers = np.ldexp(1.0, np.maximum(np.arange(32), 1) - 14 - tensor.format.mantissa_bits)
    flat = (
        np.ascontiguousarray(part).reshape(outer, part.shape[axis], inner)
        for part in (tensor.sign, tensor.mantissa, tensor.exponent)
    )
    parts = [part if part.flags.writeable else part.copy() for part in flat]
    decode_any(*parts, tensor.format.group, powers, out.reshape(outer, shape[axis], inner))
    return out


@callee
def _aligned(u, base):  # type: ignore[no-untyped-def]
    """The magnitude of word u under a base of 11 - mantissa bits + shared exponent, all in 16 bits."""
    field = H(H(u >> H(10)) & H(31))
    significand = H(H(u & H(0x3FF)) | H(H(min(field, H(1))) << H(10)))
    return H(significand >> min(H(base - max(field, H(1))), H(15)))


@callee
def _truncate_group(word, drop, sign, mantissa):  # type: ignore[no-untyped-def]
    """One group of any size. Returns its largest |word| as bits."""
    largest = H(0)
    for i in range(word.size):
        largest = max(largest, H(word[i] & H(0x7FFF)))
    base = H(max(H(largest >> H(10)), H(1)) + H(drop))
    for i in range(word.size):
        mantissa[i] = _aligned(word[i], base)
        sign[i] = np.uint8(word[i] >> H(15))
    return largest


@kernel
def truncate_rows(word, group, drop, sign, mantissa, exponent):  # type: ignore[no-untyped-def]
    """Rows of (rows, length) words in groups; drop: 11 less the mantissa bits. Returns the largest |word| as bits."""
    seen = H(0)
    for row in range(word.shape[0]):
        for g in range(exponent.shape[1]):
            start, stop = g * group, min(g * group + group, word.shape[1])
            largest = _truncate_group(word[row, start:stop], drop, sign[row, start:stop], mantissa[row, start:stop])
            exponent[row, g] = np.uint8(largest >> H(10))
            seen = max(seen, largest)
    return seen


@kernel
def truncate_rows_by_32(word, group, drop, sign, mantissa, exponent):  # type: ignore[no-untyped-def]
    """As `truncate_rows` for groups of 32: a group is a vector of 32 lanes of 16 bits.

    The first loop runs `group & 32` times, which the compiler does not know to be 32: else it would unroll the loop
    before it could make it one vector.
    """
    seen = H(0)
    lanes = group & 32
    whole = word.shape[1] // 32
    for row in range(word.shape[0]):
        for g in range(whole):
            start = 32 * g
            largest = H(0)
            for i in range(lanes):
                largest = max(largest, H(word[row, start + i] & H(0x7FFF)))
            exponent[row, g] = np.uint8(largest >> H(10))
            seen = max(seen, largest)
            base = H(max(H(largest >> H(10)), H(1)) + H(drop))
            for i in range(32):
                u = word[row, start + i]
                mantissa[row, start + i] = _aligned(u, base)
                sign[row, start + i] = np.uint8(u >> H(15))
        if whole < exponent.shape[1]:  # a short group at the end
            start = 32 * whole
            largest = _truncate_group(word[row, start:], drop, sign[row, start:], mantissa[row, start:])
            exponent[row, whole] = np.uint8(largest >> H(10))
            seen = max(seen, largest)
    return seen


@kernel
def truncate_columns(word, group, drop, sign, mantissa, exponent):  # type: ignore[no-untyped-def]
    """(outer, length, inner) words in groups along the middle axis, a strip of columns at a time, side by side."""
    length, inner = word.shape[1], word.shape[2]
    seen = H(0)
    base = np.empty(STRIP, np.uint16)
    for o in range(word.shape[0]):
        for g in range(exponent.shape[1]):
            start, stop = g * group, min(g * group + group, length)
            for first in range(0, inner, STRIP):
                n = min(STRIP, inner - first)
                shared = exponent[o, g, first : first + n]
                for c in range(n):
                    base[c] = H(0)
                for i in range(start, stop):
                    w = word[o, i, first : first + n]
                    for c in range(n):
                        base[c] = max(base[c], H(w[c] & H(0x7FFF)))
                for c in range(n):
                    seen = max(seen, base[c])
                    shared[c] = np.uint8(base[c] >> H(10))
                    base[c] = H(max(H(base[c] >> H(10)), H(1)) + H(drop))
                for i in range(start, stop):
                    w, m, s = (
                        word[o, i, first : first + n],
                        mantissa[o, i, first : first + n],
                        sign[o, i, first : first + n],
                    )
                    for c in range(n):
                        m[c] = _aligned(w[c], base[c])
                        s[c] = np.uint8(w[c] >> H(15))
    return seen


@kernel
def encode_any(  # type: ignore[no-untyped-def]
    word, group, width, rounding, flush, canonical, sign, mantissa, exponent
):
    """(outer, length, inner) words in groups along the middle axis. Returns the largest |word| as bits."""
    length, inner = word.shape[1], word.shape[2]
    top = (np.int64(1) << width) - 1
    seen = np.int64(0)
    largest = np.empty(inner, np.int64)
    for o in range(word.shape[0]):
        for g in range(exponent.shape[1]):
            start = g * group
            stop = min(start + group, length)
            largest[:] = 0
            for i in range(start, stop):
                for c in range(inner):
                    largest[c] = max(largest[c], np.int64(word[o, i, c]) & 0x7FFF)
            for c in range(inner):
                exponent[o, g, c] = largest[c] >> 10
                seen = max(seen, largest[c])
            for i in range(start, stop):
                for c in range(inner):
                    u = np.int64(word[o, i, c])
                    field = (u >> 10) & 31
                    normal = min(field, 1)
                    significand = ((u & 0x3FF) | (normal << 10)) * max(normal, 1 - flush)
                    shift = 11 - width + max(largest[c] >> 10, 1) - max(field, 1)
                    half = (np.int64(1) << shift) >> 1
                    below = min(half, 1)  # 0 where nothing is cut off
                    negative = u >> 15
                    even = half - below + ((significand >> shift) & below)
                    add = (
                        np.int64(rounding == HALF_EVEN) * even
                        + np.int64(rounding == HALF_AWAY) * half
                        + np.int64(rounding == FLOOR) * negative * ((np.int64(1) << shift) - 1)
                    )
                    magnitude = min((significand + add) >> shift, top)
                    mantissa[o, i, c] = magnitude
                    sign[o, i, c] = negative * max(min(magnitude, 1), 1 - canonical)
    return seen


@kernel
def decode_any(sign, mantissa, exponent, group, powers, out):  # type: ignore[no-untyped-def]
    """(outer, length, inner) codes as float64; powers: 2**(max(E, 1) - 14 - mantissa bits) by E."""
    for o in range(out.shape[0]):
        for i in range(out.shape[1]):
            for c in range(out.shape[2]):
                power = powers[exponent[o, i // group, c]]
                signed = np.float64(1 - 2 * np.int64(sign[o, i, c]))
                out[o, i, c] = signed * np.float64(mantissa[o, i, c]) * power
