"""Compiled twin of `Bfp.encode` and `BfpTensor.decode`: same arguments after the format, equal results.

Read bfp.py first. [harmonia §II-B, Fig. 3]. Plain truncation along the last axis has kernels of its own, since every
activation passes it; any other option or axis takes the general one.
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith.jit import helper, kernel
from refemu.formats import groups
from refemu.formats.bfp import INFINITY, ROUNDINGS, Bfp
from refemu.formats.bfp_tensor import BfpTensor

U = np.uint32
H = np.uint16
STRIP = 2048  # words of a row that are worked on at once, a multiple of 32
TRUNCATE, HALF_EVEN, HALF_AWAY, FLOOR = range(4)  # places in ROUNDINGS


def encode(fmt: Bfp, x: Any, axis: int = -1, *, bits: bool = False) -> BfpTensor:
    """`fmt.encode(x, axis, bits=bits)`."""
    word = np.asarray(x)
    if fmt.special != "error" or word.dtype != (np.uint16 if bits else np.float16):
        word = fmt.admitted(x, bits).astype(np.uint16)
    word = np.ascontiguousarray(word).view(np.uint16).reshape(word.shape)
    axis = groups.require_axis(axis, word.shape, "Bfp.encode")
    length: int = word.shape[axis]
    outer, inner = prod(word.shape[:axis]), prod(word.shape[axis + 1:])
    count = groups.count(length, fmt.group)
    sign, mantissa = np.empty(word.shape, np.uint8), np.empty(word.shape, np.uint16)
    exponent = np.empty((*word.shape[:axis], count, *word.shape[axis + 1:]), np.uint8)
    outputs = sign.reshape(outer, length, inner), mantissa.reshape(outer, length, inner)
    plain = fmt.rounding == "truncate" and fmt.subnormals == "keep" and fmt.zero_sign == "keep"
    if plain and inner == 1:
        run = truncate_rows_by_32 if fmt.group == 32 else truncate_rows
        largest = run(word.reshape(outer, length), fmt.group, 11 - fmt.mantissa_bits,
                      *(output[:, :, 0] for output in outputs), exponent.reshape(outer, count))
    else:
        largest = encode_any(word.reshape(outer, length, inner), fmt.group, fmt.mantissa_bits,
                             ROUNDINGS.index(fmt.rounding), int(fmt.subnormals == "flush"),
                             int(fmt.zero_sign == "canonical"), *outputs, exponent.reshape(outer, count, inner))
    if fmt.special == "error" and largest >= INFINITY:
        fmt.encode(x, axis, bits=bits)  # refuses it
    return BfpTensor(fmt, sign, mantissa, exponent, axis)


def decode(tensor: BfpTensor) -> np.ndarray:
    """`tensor.decode()`."""
    axis, shape = tensor.axis, tensor.shape
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1:])
    out = np.empty(shape, np.float64)
    powers = np.ldexp(1.0, np.maximum(np.arange(32), 1) - 14 - tensor.format.mantissa_bits)
    flat = (np.ascontiguousarray(part).reshape(outer, part.shape[axis], inner)
            for part in (tensor.sign, tensor.mantissa, tensor.exponent))
    decode_any(*(part if part.flags.writeable else part.copy() for part in flat), tensor.format.group, powers,
               out.reshape(outer, shape[axis], inner))
    return out


@helper
def _shifted(u, base):  # type: ignore[no-untyped-def]
    """The magnitude of word u under a base of 11 - mantissa bits + shared exponent."""
    field = U(U(u >> U(10)) & U(31))
    significand = U(U(u & U(0x3FF)) | U(min(field, U(1)) << U(10)))
    return U(significand >> min(U(base - max(field, U(1))), U(31)))


@kernel
def truncate_rows(word, group, drop, sign, mantissa, exponent):  # type: ignore[no-untyped-def]
    """Rows of (rows, length) words in groups; drop: 11 less the mantissa bits. Returns the largest |word| as bits."""
    length = word.shape[1]
    seen = U(0)
    for row in range(word.shape[0]):
        for g in range(exponent.shape[1]):
            start = g * group
            stop = min(start + group, length)
            largest = U(0)
            for i in range(start, stop):
                largest = max(largest, U(word[row, i] & U(0x7FFF)))
            base = U(max(U(largest >> U(10)), U(1)) + U(drop))
            for i in range(start, stop):
                u = U(word[row, i])
                mantissa[row, i] = _shifted(u, base)
                sign[row, i] = U(u >> U(15))
            exponent[row, g] = U(largest >> U(10))
            seen = max(seen, largest)
    return seen


@kernel
def truncate_rows_by_32(word, group, drop, sign, mantissa, exponent):  # type: ignore[no-untyped-def]
    """As `truncate_rows` for groups of 32, a strip of a row at a time, so that all loops but one run over a strip.

    After five rounds of taking the larger of two places, top[i] is the largest of the 32 places from i on.
    """
    length = word.shape[1]
    seen = U(0)
    top, base = np.zeros(STRIP + 32, np.uint16), np.zeros(STRIP + 32, np.uint16)
    for row in range(word.shape[0]):
        for first in range(0, length, STRIP):
            n = min(STRIP, length - first)
            w, m, s = (word[row, first : first + n], mantissa[row, first : first + n], sign[row, first : first + n])
            top[n : n + 32] = 0
            for i in range(n):
                top[i] = w[i] & H(0x7FFF)
            for i in range(n):  # the distance is a constant: else these loops would not vectorise
                top[i] = max(top[i], top[i + 1])
            for i in range(n):
                top[i] = max(top[i], top[i + 2])
            for i in range(n):
                top[i] = max(top[i], top[i + 4])
            for i in range(n):
                top[i] = max(top[i], top[i + 8])
            for i in range(n):
                top[i] = max(top[i], top[i + 16])
            for start in range(0, n, 32):
                largest = U(top[start])
                shared = H(max(U(largest >> U(10)), U(1)) + U(drop))
                for i in range(start, start + 32):
                    base[i] = shared
                exponent[row, (first + start) // group] = U(largest >> U(10))
                seen = max(seen, largest)
            for i in range(n):
                u = U(w[i])
                m[i] = _shifted(u, U(base[i]))
                s[i] = U(u >> U(15))
    return seen


@kernel
def encode_any(word, group, width, rounding, flush, canonical,  # type: ignore[no-untyped-def]
               sign, mantissa, exponent):
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
                    add = (np.int64(rounding == HALF_EVEN) * even + np.int64(rounding == HALF_AWAY) * half
                           + np.int64(rounding == FLOOR) * negative * ((np.int64(1) << shift) - 1))
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
