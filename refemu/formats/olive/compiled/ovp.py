"""Compiled form of `Ovp.encode` and `Ovp.decode`: same arguments after the format, equal results. Read ovp.py first.

Paper: [olive Alg. 1, Alg. 2, §4.2]. `encode_pairs` and `decode_pairs` go between values and packed words without a code
per element between. A format without a kernel, and values that float32 does not hold, take the readable definition.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from refemu.arith.bits import code_dtype
from refemu.arith.checks import Refused, as_array, refuse_as, require_range
from refemu.arith.fp16_compiled import plain
from refemu.formats.integer import IntFormat
from refemu.formats.nearest import require_real
from refemu.formats.olive.kernels import nibbles, ovp
from refemu.formats.olive.ovp import Ovp, OvpTensor, require_scale
from refemu.formats.olive.pairs import from_pairs, to_pairs

INFINITY = 0x7F800000  # float32 pattern
BLOCK = 1 << 16  # fp16 words that are divided before they are encoded, an even number


def encode(fmt: Ovp, x: ArrayLike, scale: ArrayLike | None = None, axis: int = -1) -> OvpTensor:
    """`fmt.encode(x, scale, axis)`."""
    return fmt.tensor(encode_pairs(fmt, x, scale, axis), np.shape(x), scale, axis)


def encode_pairs(fmt: Ovp, x: ArrayLike, scale: ArrayLike | None = None, axis: int = -1) -> np.ndarray:
    """`fmt.encode(x, scale, axis).pairs()`: packed words, uint8 or uint16, shape (..., padded / 2)."""
    x = require_real(x, "Ovp.encode")
    paired, plan = fmt.paired(x.shape, axis), ovp.plan(fmt)
    factor = None if scale is None else require_scale(scale, x.shape, axis)
    halves = x.dtype == np.float16 and (factor is None or factor.ndim == 0)
    values = x.view(np.uint16) if halves else _narrow(x) if factor is None else _quotient(x, factor, axis)
    if values is None or plan is None:
        return fmt.encode(x, scale, axis).pairs()
    pairs = plain(to_pairs(values, paired))
    words = np.empty(pairs.shape[:-1], code_dtype(2 * fmt.width))
    if halves:
        largest = _encode_halves(fmt, pairs.reshape(-1), np.float32(1 if factor is None else factor), words.reshape(-1))
    else:
        largest = _encode(fmt, pairs.reshape(-1).view(np.int32), words.reshape(-1))
    if largest >= INFINITY:
        fmt.encode(x, scale, axis)  # raises, unless a quotient exceeded float32
    return words


class VectorEncoder:
    """`encode_pairs` of many vectors by one format and scale, both checked before."""

    def __init__(self, fmt: Ovp, scale: np.float32) -> None:
        """fmt: of 4 bits. scale: positive and normal."""
        plan = ovp.plan(fmt)
        self.suits: bool = plan is not None and fmt.width == 4  #: whether kernels encode this format
        self._format, self._scale, self._plan, self._special = fmt, scale, plan, ovp.special(fmt)
        self._run = ovp.encode_integer if isinstance(fmt.normal, IntFormat) else ovp.encode_flint4

    def __repr__(self) -> str:
        return f"VectorEncoder({self._format.name}, {self._scale})"

    def __call__(self, x: np.ndarray) -> np.ndarray | None:
        """Words of float32 `x`, (inputs / 2,); None if another form must encode or reject it."""
        if not self.suits or x.size % 2:
            return None
        words = np.empty(x.size // 2, np.uint8)
        with np.errstate(all="ignore"):
            bits = (x / self._scale).view(np.int32)
        return None if self._run(bits, words, self._plan, self._special) >= INFINITY else words


def _encode(fmt: Ovp, bits: np.ndarray, words: np.ndarray) -> int:
    """words <- pairs of float32 patterns; returns the largest magnitude."""
    run = ovp.encode_integer if isinstance(fmt.normal, IntFormat) else ovp.encode_flint4
    return int(run(bits, words, ovp.plan(fmt), ovp.special(fmt)))


def _encode_halves(fmt: Ovp, halves: np.ndarray, scale: np.float32, words: np.ndarray) -> int:
    """The same for fp16 words over `scale`, a block at a time, so that the quotients stay in a cache."""
    largest, quotients = 0, np.empty(min(BLOCK, halves.size), np.float32)
    for first in range(0, halves.size, BLOCK):
        part = halves[first : first + BLOCK]
        with np.errstate(over="ignore", under="ignore"):
            ovp.quotients(part, scale, quotients)
        patterns = quotients[: part.size].view(np.int32)
        largest = max(largest, _encode(fmt, patterns, words[first // 2 : (first + part.size) // 2]))
    return largest


def _quotient(x: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    """`ovp.quotient`, whatever x holds."""
    with np.errstate(all="ignore"):  # NaN and infinity raise afterwards
        return x.astype(np.float32, copy=False) / (scale if scale.ndim == 0 else np.expand_dims(scale, axis))


def _narrow(x: np.ndarray) -> np.ndarray | None:
    """x as float32 where that is exact, else None."""
    if x.dtype.kind != "f":
        small = x.size == 0 or (int(x.min()) >= -(1 << 24) and int(x.max()) <= 1 << 24)
        return x.astype(np.float32) if small else None
    with np.errstate(over="ignore", under="ignore"):
        narrow = x.astype(np.float32, copy=False)
    return narrow if x.itemsize <= 4 or np.array_equal(narrow, x) else None


def decode(fmt: Ovp, codes: ArrayLike, axis: int = -1, *, strict: bool = True) -> np.ndarray:
    """`fmt.decode(codes, axis, strict=strict)`."""
    array = require_range(codes, 0, 1 << fmt.width, "Ovp.decode", "code")
    paired = fmt.paired(array.shape, axis)
    if paired is not None and array.shape[paired] % 2:
        refuse_as(fmt.decode, array, axis)
    words = fmt.join(to_pairs(array, paired))
    return from_pairs(decode_pairs(fmt, words, np.int64, strict=strict), array.shape, paired)


def decode_pairs(fmt: Ovp, words: ArrayLike, dtype: DTypeLike | None = None, *, strict: bool = True) -> np.ndarray:
    """Grid values of pair words, left first, shape (..., 2 * pairs): `fmt.decode(fmt.split(words))` laid side by side.

    words: as `encode_pairs` returns them, at least one axis. dtype: of the result, any that holds every value of the
    format; by default the narrowest of int8, int16, int32. Raises ValueError for an illegal pair if `strict`.
    """
    array = _require_words(fmt, words)
    values = np.dtype(_narrowest(fmt) if dtype is None else dtype)
    table, illegal = _table(fmt, values)
    out = np.empty((*array.shape[:-1], 2 * array.shape[-1]), _narrowest(fmt))
    pair = np.dtype(f"u{2 * out.itemsize}")
    flat, pairs, magnitudes = array.reshape(-1), out.reshape(-1).view(pair), nibbles.magnitudes(fmt)
    if magnitudes is not None:
        with np.errstate(over="ignore"):  # bytes wrap; only interpreted kernels would warn
            flagged = nibbles.decode(flat, magnitudes, pairs) == 0
    else:
        met = int(ovp.decode(flat, table, pairs))
        flagged = met >> 8 * pair.itemsize if out.itemsize < 4 else ovp.any_marked(flat, illegal)
    if strict and flagged:
        refuse_as(fmt.decode, fmt.split(array).reshape(out.shape))
    return out.astype(values, copy=False)


def dequantize_pairs(fmt: Ovp, words: ArrayLike, scale: ArrayLike) -> np.ndarray:
    """fl32(grid x scale) of pair words, float32 (..., 2 * pairs): `OvpTensor.dequantize` with values side by side.

    words: as for `decode_pairs`. scale: float32, positive and normal, a scalar or of the shape of `words` without its
    last axis. Raises ValueError for an illegal pair. Paper: [olive §4].
    """
    array = _require_words(fmt, words)
    factor, magnitudes = require_scale(scale, array.shape, -1), nibbles.magnitudes(fmt)
    if magnitudes is None or factor.ndim > 0:
        with np.errstate(over="ignore", under="ignore"):
            return decode_pairs(fmt, array, np.float32) * (factor[..., None] if factor.ndim > 0 else factor)
    out = np.empty((*array.shape[:-1], 2 * array.shape[-1]), np.float32)
    with np.errstate(over="ignore", under="ignore"):
        least = nibbles.dequantize(array.reshape(-1), magnitudes, np.float32(factor), out.reshape(-1))
    if least == 0:
        refuse_as(fmt.decode, fmt.split(array).reshape(out.shape))
    return out


def _require_words(fmt: Ovp, words: ArrayLike) -> np.ndarray:
    """Pair words, contiguous, with at least one axis, each in [0, 2**(2 * width)): the dtype alone may say so."""
    array = as_array(words)
    if array.ndim == 0:
        raise Refused(f"{fmt.name}: pair words need at least one axis, got a scalar")
    if array.dtype != code_dtype(2 * fmt.width) or 8 * array.itemsize != 2 * fmt.width:
        array = require_range(array, 0, 1 << 2 * fmt.width, str(fmt), "pair").astype(code_dtype(2 * fmt.width))
    return plain(array)


@functools.cache
def _table(fmt: Ovp, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Both values of every pair word in one unsigned element, and whether the word is illegal.

    If 64 bits suffice, the element is twice as wide as the pair and its upper half flags an illegal pair.
    Rejects a dtype that does not hold every value.
    """
    pairs = fmt.split(np.arange(1 << 2 * fmt.width))
    values, illegal = fmt.decode(pairs, strict=False), fmt.illegal(pairs)
    if not np.array_equal(values.astype(dtype), values):
        raise Refused(f"{fmt.name}: {dtype} does not hold every value, the largest is {np.abs(values).max()}")
    size = 2 * _narrowest(fmt).itemsize
    table = np.ascontiguousarray(values.astype(_narrowest(fmt))).view(f"u{size}")[:, 0]
    if size < 8:
        table = (table | illegal.astype(np.uint64) << np.uint64(8 * size)).astype(f"u{2 * size}")
    return table, illegal


def _narrowest(fmt: Ovp) -> np.dtype:
    """The narrowest of int8, int16 and int32 that holds every value."""
    outliers = [int(fmt.outlier.magnitudes()[-1])] if fmt.outlier else []
    largest = max([fmt.normal.largest, *outliers])
    return np.dtype(np.int8 if largest < 1 << 7 else np.int16 if largest < 1 << 15 else np.int32)
