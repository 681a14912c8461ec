"""Arrays, element by element."""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import (
    U64,
    U,
    canonical,
    exp,
    fma16,
    fma32,
    narrow,
    round16,
    round16_of_f64,
    tanh,
    widen,
)

BLOCK = 1024  # words that fit in a first-level cache with the used entries


@kernel
def round16_all(x, out):
    """out <- `fp16.round16` of x (size,) float32."""
    for i in range(x.size):
        out[i] = canonical(round16(x[i]))


@kernel
def all_fp16(x):
    """Whether every float32 is an fp16 value; NaN is one."""
    strange = U(0)
    for i in range(x.size):
        strange = U(strange | U(U(round16(x[i]) != x[i]) & U(x[i] == x[i])))
    return strange == U(0)


@kernel
def round16_of_f64_all(x, out):
    """out <- `fp16.round16_of_f64` of x (size,) float64."""
    for i in range(x.size):
        out[i] = canonical(round16_of_f64(x[i]))


@kernel
def widen_all(u, out):
    """out <- the values, float32, of fp16 words u (size,)."""
    for i in range(u.size):
        out[i] = canonical(widen(u[i]))


@kernel
def narrow_all(x, out):
    """out <- the words, uint16, of float32 x (size,) rounded to fp16; NaN is 0x7E00."""
    for i in range(x.size):
        word = U(narrow(x[i]))
        nan = U(U(0) - U(U(word & U(0x7FFF)) > U(0x7C00)))
        out[i] = np.uint16(U(U(word & U(~nan)) | U(U(0x7E00) & nan)))


@kernel
def fma32_all(a, b, c, out):
    """out <- `fp32.fma32` of float32 (size,)."""
    for i in range(a.size):
        out[i] = canonical(fma32(a[i], b[i], c[i]))


@kernel
def fma16_all(a, b, c, out):
    """out <- `fp16.fma16` of float32 (size,). Returns whether one of them is not an fp16 value; NaN is one."""
    strange = U(0)
    for i in range(a.size):
        x, y, z = a[i], b[i], c[i]
        strange = U(strange | U(U(round16(x) != x) & U(x == x)))
        strange = U(strange | U(U(round16(y) != y) & U(y == y)))
        strange = U(strange | U(U(round16(z) != z) & U(z == z)))
        out[i] = canonical(fma16(x, y, z))
    return strange != U(0)


@kernel
def fma16_of_words(a, b, c, out):
    """`fma16_all` of fp16 words."""
    for i in range(a.size):
        out[i] = canonical(fma16(widen(a[i]), widen(b[i]), widen(c[i])))


@kernel
def exp_all(x, out):
    """out <- `fp32.exp32` of x (size,)."""
    for i in range(x.size):
        out[i] = exp(x[i])


@kernel
def tanh_all(x, out):
    """out <- `scores.tanh32` of x (size,) float32."""
    for i in range(x.size):
        out[i] = tanh(x[i])


@kernel
def values_by_table(x, table, out):
    """out <- values, float32, of the entries of table for x (size,), rounded to fp16; a block that stays in cache."""
    words = np.zeros(BLOCK, np.uint16)
    for i0 in range(0, x.size, BLOCK):
        part = x[i0 : i0 + BLOCK]
        narrow_all(part, words)
        take_fours(table, words.view(np.uint64), words.view(np.uint64))
        widen_all(words[: part.size], out[i0:])


@kernel
def take_fours(table, words, out):
    """out <- table (65536,) of four words in a uint64: one load and one store for them, and a look-up each."""
    for i in range(words.size):
        w = U64(words[i])
        first = U64(table[np.int64(U64(w & U64(0xFFFF)))])
        second = U64(table[np.int64(U64(U64(w >> U64(16)) & U64(0xFFFF)))])
        third = U64(table[np.int64(U64(U64(w >> U64(32)) & U64(0xFFFF)))])
        fourth = U64(table[np.int64(U64(w >> U64(48)))])
        low, high = U64(first | U64(second << U64(16))), U64(third | U64(fourth << U64(16)))
        out[i] = U64(low | U64(high << U64(32)))
