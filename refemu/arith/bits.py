"""Bit fields, two's complement, packing of sub-byte codes, the three fields of an fp16 word.

Decision: D-arith-12 (element 0 of a packed stream is in the least significant bits).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_integers, require_range
from refemu.arith.integers import as_int64, require_bits, require_width

__all__ = ["code_dtype", "f16_join", "f16_split", "field", "join", "pack", "sign_extend", "to_twos", "unpack"]


_BLOCK = 1 << 16  # codes packed at once: a multiple of 8, so that every block but the last fills whole bytes


def field(code: ArrayLike, low: int, width: int) -> np.ndarray:
    """Extract bits [low, low + width) of codes.

    Parameters
    ----------
    code : array_like of integers
        Codes, negative ones as two's complement.
    low : int
        First bit, 0 to 63.
    width : int
        Number of bits, 1 to 63.

    Returns
    -------
    ndarray of int64
        Fields, in the shape of the codes.

    Raises
    ------
    Refused
        `low` or `width` is out of range.
    RefusedType
        Another dtype.
    """
    require_bits(width, "field")
    if not 0 <= low <= 63:
        raise Refused(f"field: low must be in [0, 63], got {low}")
    words = require_integers(code, "field")
    mask = (1 << width) - 1
    if words.dtype == np.uint64:
        return ((words >> np.uint64(low)) & np.uint64(mask)).astype(np.int64)
    return (words.astype(np.int64) >> low) & mask


def join(*fields: tuple[ArrayLike, int]) -> np.ndarray:
    """Join fields to one word, the first in the least significant bits: the inverse of `field`.

    Parameters
    ----------
    *fields : (array_like of integers, int)
        Value below 2**width, and width; the widths sum to 63 at most.

    Returns
    -------
    ndarray of int64
        Words; values broadcast.

    Raises
    ------
    Refused
        A value does not fit its width, or the widths are too many bits.
    """
    word, low = np.asarray(0, np.int64), 0
    for position, (value, width) in enumerate(fields):
        require_bits(width, "join")
        if low + width > 63:
            raise Refused(f"join: the widths must sum to 63 at most, got {[pair[1] for pair in fields]}")
        part = require_width(value, width, False, f"join: field {position}")
        word, low = word | (part << low), low + width
    return word


def sign_extend(code: ArrayLike, width: int) -> np.ndarray:
    """Read two's complement codes.

    Parameters
    ----------
    code : array_like of integers
        Codes below 2**width.
    width : int
        Width of a code, 1 to 63.

    Returns
    -------
    ndarray of int64
        Values.

    Raises
    ------
    Refused
        A code does not fit.
    """
    sign = 1 << (require_bits(width, "sign_extend") - 1)
    return (require_width(code, width, False, "sign_extend") ^ sign) - sign


def to_twos(value: ArrayLike, width: int) -> np.ndarray:
    """Write values as two's complement codes.

    Parameters
    ----------
    value : array_like of integers
        -2**(width - 1) to 2**(width - 1) - 1.
    width : int
        Width of a code, 1 to 63.

    Returns
    -------
    ndarray of int64
        Codes below 2**width.

    Raises
    ------
    Refused
        A value does not fit.
    """
    return require_width(value, width, True, "to_twos") & ((1 << width) - 1)


def code_dtype(width: int) -> np.dtype:
    """Narrowest unsigned dtype for codes of a width.

    Parameters
    ----------
    width : int
        Width of a code, 1 to 32.

    Returns
    -------
    dtype
        uint8, uint16 or uint32.
    """
    return np.dtype(np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32)


def pack(codes: ArrayLike, width: int) -> bytes:
    """Pack codes as one stream of bits, C order, without gaps.

    Element i has bits [i * width, (i + 1) * width); bit j of the stream is in byte j // 8 at position j % 8
    (D-arith-12). Spare high bits of the last byte are 0.

    Parameters
    ----------
    codes : array_like of integers
        Codes below 2**width.
    width : int
        Width of a code, 1 to 32.

    Returns
    -------
    bytes
        Stream.

    Raises
    ------
    Refused
        A code is out of range, with its index.
    RefusedType
        Another dtype.
    """
    _require_code_width(width, "pack")
    array = require_integers(codes, "pack")
    bad = (array < 0) | (array >> (width - 1) > 1)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"pack: code {int(array[index])}{at(index)} is outside [0, 2**{width})")
    flat = np.ravel(array).astype("<u4")
    return b"".join(_pack_block(flat[start : start + _BLOCK], width) for start in range(0, flat.size, _BLOCK))


def _pack_block(codes: np.ndarray, width: int) -> bytes:
    bits = np.unpackbits(codes.view(np.uint8).reshape(-1, 4), axis=1, count=width, bitorder="little")
    return np.packbits(bits, bitorder="little").tobytes()


def unpack(data: bytes | np.ndarray, width: int, count: int) -> np.ndarray:
    """Unpack codes that `pack` wrote.

    Parameters
    ----------
    data : bytes or ndarray of uint8
        Stream.
    width : int
        Width of a code, 1 to 32.
    count : int
        Number of codes.

    Returns
    -------
    ndarray of uint8, uint16 or uint32 (count,)
        Codes.

    Raises
    ------
    Refused
        The length is wrong, or spare bits are not 0.
    RefusedType
        An array of another dtype.
    """
    _require_code_width(width, "unpack")
    stream = _bytes(data)
    if count < 0:
        raise Refused(f"unpack: count must be at least 0, got {count}")
    if stream.size != (need := (count * width + 7) // 8):
        raise Refused(f"unpack: {count} codes of {width} bits need {need} bytes, got {stream.size}")
    used = count * width % 8
    if used and int(stream[-1]) >> used:
        raise Refused(f"unpack: spare bits of the last byte are set: 0x{int(stream[-1]):02x} of {used} used bits")
    return np.concatenate([np.empty(0, code_dtype(width)), *_unpack_blocks(stream, width, count)])


def _bytes(data: bytes | np.ndarray) -> np.ndarray:
    if isinstance(data, np.ndarray):
        if data.dtype != np.uint8:
            raise RefusedType(f"unpack: bytes are needed, got dtype {data.dtype}")
        return np.ravel(data)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RefusedType(f"unpack: data must be bytes or an array of uint8, got {type(data).__name__}")
    return np.frombuffer(data, np.uint8)


def _unpack_blocks(stream: np.ndarray, width: int, count: int) -> Iterator[np.ndarray]:
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        part = stream[start * width // 8 :]
        bits = np.unpackbits(part[: (size * width + 7) // 8], count=size * width, bitorder="little")
        words = np.zeros((size, 4), np.uint8)
        words[:, : (width + 7) // 8] = np.packbits(bits.reshape(size, width), axis=1, bitorder="little")
        yield words.view("<u4")[:, 0].astype(code_dtype(width))


def _require_code_width(width: int, thing: str) -> None:
    if not 1 <= width <= 32:
        raise Refused(f"{thing}: width must be in [1, 32], got {width}")


def f16_split(u: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split fp16 words.

    A finite word is (-1)^sign * sig * 2^(eff - 25), with sig in [0, 2048) and eff in [1, 30]; infinity and NaN have eff
    31 and their fraction under a hidden one.

    Parameters
    ----------
    u : array_like of integers
        Words below 2**16.

    Returns
    -------
    sign, sig, eff : ndarray of int64
        Sign, significand and effective exponent.

    Raises
    ------
    Refused
        A word is out of range.
    """
    word = as_int64(require_range(u, 0, 1 << 16, "f16_split", "word"), "f16_split")
    exponent, fraction = (word >> 10) & 31, word & 0x3FF
    return word >> 15, fraction | ((exponent > 0).astype(np.int64) << 10), np.maximum(exponent, 1)


def f16_join(sign: ArrayLike, sig: ArrayLike, eff: ArrayLike) -> np.ndarray:
    """Join fp16 words from the parts of `f16_split`; arguments broadcast.

    Parameters
    ----------
    sign : array_like of integers
        0 or 1.
    sig : array_like of integers
        Significand below 2048; at least 1024 where `eff` is above 1.
    eff : array_like of integers
        Effective exponent, 1 to 31.

    Returns
    -------
    ndarray of uint16
        Words.

    Raises
    ------
    Refused
        A part is out of range.
    """
    s = require_range(sign, 0, 2, "f16_join", "sign").astype(np.int64)
    m = require_range(sig, 0, 1 << 11, "f16_join", "significand").astype(np.int64)
    e = require_range(eff, 1, 32, "f16_join", "exponent").astype(np.int64)
    loose = (m < 0x400) & (e > 1)
    if loose.any():
        index = first_index(loose)
        got = int(np.broadcast_to(m, loose.shape)[index]), int(np.broadcast_to(e, loose.shape)[index])
        raise Refused(f"f16_join: a significand below 1024 needs exponent 1, got {got[0]} with {got[1]}{at(index)}")
    return ((s << 15) + ((e - 1) << 10) + m).astype(np.uint16)  # a hidden one carries into the exponent field
