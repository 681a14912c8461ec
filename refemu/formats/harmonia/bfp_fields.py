"""Codes of a row in as few bytes as their bits take: fields of 8, 4, 2 and 1 bits, upper bits first.

A field of n codes takes ceil(n * width / 8) bytes. Code i of a field of single bits is bit i % 8 of byte i // 8; of a
wider one it is in byte i % bytes, above the codes before it. So upper bits are a row of their own, of which
demotion drops what follows [harmonia §III-B, Fig. 8].
"""

import functools
from typing import NamedTuple

import numpy as np


class RowField(NamedTuple):
    """Some bits of all codes of a row."""

    width: int  #: 8, 4, 2 or 1
    first: int  #: byte
    size: int  #: bytes
    weight: int  #: place of its least significant bit in a code


@functools.cache
def fields_of(length: int, bits: int) -> tuple[RowField, ...]:
    """Fields of a row of codes, one after the other.

    Parameters
    ----------
    length : int
        Codes of a row.
    bits : int
        Bits of a code, 0 to 15.

    Returns
    -------
    tuple of RowField
        Upper bits first.
    """
    fields, first = list[RowField](), 0
    for width in (8, 4, 2, 1):
        if bits & width:
            count = -(-length * width // 8)
            fields.append(RowField(width, first, count, bits & (width - 1)))
            first += count
    return tuple(fields)


def row_bytes(length: int, bits: int) -> int:
    """Count the bytes of a row.

    Parameters
    ----------
    length, bits : int
        Codes of a row, and bits of a code.

    Returns
    -------
    int
        Bytes.
    """
    fields = fields_of(length, bits)
    return fields[-1].first + fields[-1].size if fields else 0


def pack_rows(codes: np.ndarray, bits: int) -> np.ndarray:
    """Pack the codes of every row.

    Parameters
    ----------
    codes : ndarray of unsigned integers (..., length)
        Codes; bits above `bits` are dropped.
    bits : int
        Bits of a code.

    Returns
    -------
    ndarray of uint8 (..., bytes)
        Fields of every row.
    """
    parts = list[np.ndarray]()
    for width, _, count, weight in fields_of(codes.shape[-1], bits):
        part = (codes >> weight & ((1 << width) - 1)).astype(np.uint8)
        parts.append(np.packbits(part, axis=-1, bitorder="little") if width == 1 else _folded(part, width, count))
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts or [np.zeros((*codes.shape[:-1], 0), np.uint8)], axis=-1)


def unpack_rows(packed: np.ndarray, bits: int, length: int) -> np.ndarray:
    """Unpack what `pack_rows` made of rows of `length` codes.

    Parameters
    ----------
    packed : ndarray of uint8 (..., bytes)
        Fields of every row.
    bits, length : int
        Bits of a code, and codes of a row.

    Returns
    -------
    ndarray of uint16 (..., length)
        Codes.
    """
    codes = np.zeros((*packed.shape[:-1], length), np.uint16)
    for width, first, count, weight in fields_of(length, bits):
        part = packed[..., first : first + count]
        if width == 1:
            values = np.unpackbits(part, axis=-1, count=length, bitorder="little")
        else:
            mask = (1 << width) - 1
            values = np.concatenate([part >> place & mask for place in range(0, 8, width)], axis=-1)[..., :length]
        codes |= values.astype(np.uint16) << np.uint16(weight)
    return codes


def _folded(part: np.ndarray, width: int, count: int) -> np.ndarray:
    """Codes of `width` bits (..., length) in (..., count) bytes."""
    if part.shape[-1] * width % 8:
        part = np.concatenate([part, np.zeros((*part.shape[:-1], -part.shape[-1] % (8 // width)), np.uint8)], axis=-1)
    packed = part[..., :count]
    for place in range(1, 8 // width):
        packed = packed | part[..., place * count : (place + 1) * count] << np.uint8(place * width)
    return packed
