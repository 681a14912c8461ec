"""Pairs as integers for compiled dot product units: tables by bias, and kernels that look pairs up in them.

Paper: [olive §4.2]. A value is base_int << exponent, as the compiled decoder gives it. Pairs of 4-bit codes are
looked up whole. Each element of an 8-bit pair is looked up alone: it depends only on whether its partner is the
identifier.
"""

import functools

import numpy as np

from refemu.arith.jit import callee, inlined, kernel
from refemu.units import Result
from refemu.units.olive import ovp_decoder
from refemu.units.olive.olive_edp import OPERANDS, WIDE, Operand

EXACT = 1 << 62  # above any sum of products: 64 bits hold the sum plus c
WORD = 0xFFFFFFFF  # bits of a word
MASK = 0x7FFFFFFF  # left value of an entry; bit 31 marks an illegal pair, the right value is in the bits above


@functools.cache
def table(kind: Operand) -> np.ndarray:
    """Entries that `decode` reads for operands of `kind`: int64 (16 biases, entries).

    4-bit codes: an entry per word, values of 31 and 32 bits. 8-bit codes: an entry per code, then one per code next
    to an identifier, each 2 * value + whether the pair is illegal.
    """
    bias = np.arange(16)[:, None]
    if kind in WIDE:
        codes = np.arange(256)
        words = np.concatenate([codes, codes | 0x8000])  # next to 0, and next to the identifier
        value, illegal = _decoded(kind, words, bias)
        return np.ascontiguousarray(value[..., 0] << 1 | illegal * (words > 0xFF))
    value, illegal = _decoded(kind, np.arange(256), bias)
    return np.ascontiguousarray(value[..., 1] << 32 | illegal << 31 | value[..., 0] & MASK)


def decoded(kind: Operand, pairs: np.ndarray, bias: np.ndarray | int) -> Result:
    """Outputs of compiled ovp_decoder for pairs of an operand, with a bias of their shape or that broadcasts."""
    normal, outlier = OPERANDS[kind]
    return ovp_decoder.UNIT.run_compiled(pairs, bias, normal=normal, outlier=outlier)


def _decoded(kind: Operand, words: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    done = decoded(kind, words, bias)
    return done.base_int.astype(np.int64) << done.exponent.astype(np.int64), done.illegal.astype(np.int64)


@functools.cache
def largest(kind: Operand) -> np.ndarray:
    """int64 (16,): the largest magnitude under each bias."""
    words = np.arange(256) if kind not in WIDE else np.concatenate([np.arange(256), np.arange(256) | 0x8000])
    return np.abs(_decoded(kind, words, np.arange(16)[:, None])[0]).max(axis=(1, 2))


def fits(a: Operand, bias_a: np.ndarray, b: Operand, bias_b: np.ndarray, products: int) -> bool:
    """Whether 32 bits hold every value of both operands, and 64 bits every sum of that many products."""
    if bias_a.size == 0:
        return True
    most = [int(largest(kind)[int(bias.max())]) for kind, bias in ((a, bias_a), (b, bias_b))]
    return max(most) <= MASK and most[0] * most[1] * products < EXACT


@callee
def elements(entries, row, word):
    """The entries of both codes of a word of 16 bits."""
    left, right = np.uint16(word & np.uint16(255)), np.uint16(word >> np.uint16(8))
    first = entries[row, np.uint16(left | np.uint16(np.uint16(right == 128) << np.uint16(8)))]
    return first, entries[row, np.uint16(right | np.uint16(np.uint16(left == 128) << np.uint16(8)))]


@kernel
def decode(words, row, entries, tile, values, marks):
    """values (parts, 2 * words) int32 <- both values of each pair of one tile of words (tiles, parts, words).

    row: of the entries. marks: (parts,) int64, 1 where a pair of the part is illegal.
    """
    for part in range(words.shape[1]):
        mark = np.int64(0)
        if entries.shape[1] == 256:
            for w in range(words.shape[2]):
                entry = entries[row, words[tile, part, w]]
                values[part, 2 * w] = np.int32((entry << 33) >> 33)
                values[part, 2 * w + 1] = np.int32(entry >> 32)
                mark |= entry >> 31
        else:
            for w in range(words.shape[2]):
                first, second = elements(entries, row, words[tile, part, w])
                values[part, 2 * w] = np.int32(first >> 1)
                values[part, 2 * w + 1] = np.int32(second >> 1)
                mark |= first | second
        marks[part] = mark & 1


@callee
def dot(x, x_part, y, y_part, size):
    """The sum of `size` products, 8 or 16, of two parts.

    The loop runs `size & 24` times, a number unknown to the compiler, which vectorises the loop instead of unrolling
    it.
    """
    total = np.int64(0)
    for k in range(size & 24):
        total += np.int64(x[x_part, k]) * np.int64(y[y_part, k])
    return total


@kernel
def reduce(total, saturate):
    """`total` in 32 bits, wrapped or saturated, and 1 if it had left them."""
    wrapped = np.int64(np.int32(total))
    end = min(max(total, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
    return wrapped + (end - wrapped) * saturate, np.int64(wrapped != total)


@inlined
def split(product, shift):
    """product << shift in two words: the low 32 bits as a signed number, and those above.

    |product| <= 2^14, and <= 63^2 where shift >= 32, as both factors are outliers: both words stay below 2^50.
    """
    beyond = np.int64(shift >= 32)
    term = (product << min(shift, 31)) * (1 - beyond)
    low = ((term + (1 << 31)) & WORD) - (1 << 31)
    return low, ((term - low) >> 32) + (product << max(shift - 32, 0)) * beyond


@inlined
def ended(low, high, saturate):
    """A sum of two words in 32 bits, wrapped or saturated, and 1 if it had left them."""
    high += low >> 32
    low &= WORD
    top = low >> 31  # the sign of the low word: the sum fits if the high word only repeats it
    over = np.int64(high != -top)
    end = ((1 << 31) - 1) * np.int64(high >= 0) - (1 << 31) * np.int64(high < 0)
    keep = 1 - saturate * over
    return (low - (top << 32)) * keep + end * (1 - keep), over
