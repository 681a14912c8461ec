"""Memory layout of block floating point codes: group words, or planes of which demotion drops the last.

Paper: [harmonia §III-B], [harmonia §IV-C, Fig. 14]. Decision: D-harmonia-34 (the paper gives no packing).
"""

from math import prod
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from refemu.arith import bits
from refemu.arith.checks import Refused, at, first_index, require_choice
from refemu.formats import groups

Layout: TypeAlias = Literal["group", "planes"]  #: words of whole groups, or one plane per field


class GroupRows(NamedTuple):
    """The codes of every group of a tensor, one group a row, the grouped axis moved last, in C order."""

    sign: np.ndarray  #: (groups, group)
    mantissa: np.ndarray  #: (groups, group)
    exponent: np.ndarray  #: (groups,)


def require_codes(array: np.ndarray, limit: int, name: str) -> None:
    """Reject the first code outside [0, limit) with field and index."""
    if array.size == 0 or ((array.dtype.kind == "u" or int(array.min()) >= 0) and int(array.max()) < limit):
        return
    index = first_index((array < 0) | (array >= limit))
    raise Refused(f"BfpTensor: {name} {int(array[index])}{at(index)} is outside [0, {limit})")


def rows_of(sign: np.ndarray, mantissa: np.ndarray, exponent: np.ndarray, axis: int, group: int) -> GroupRows:
    """The codes of a tensor group by group; the end of a short group is filled with zeros."""
    signs, mantissas = (groups.split(part, group, axis).reshape(-1, group) for part in (sign, mantissa))
    return GroupRows(signs, mantissas, np.moveaxis(exponent, axis, -1).reshape(-1))


def pack(rows: GroupRows, width: int, layout: Layout) -> bytes:
    """The bytes of `BfpTensor.pack`. width: bits of a magnitude."""
    _require_layout(layout, width)
    if layout == "group":
        return np.packbits(_stream(rows, width).reshape(-1), bitorder="little").tobytes()
    nibbles = [bits.pack(rows.mantissa >> shift & 15, 4) for shift in ((0,) if width == 4 else (4, 0))]
    return b"".join([bits.pack(rows.exponent, 5), bits.pack(rows.sign, 1), *nibbles])


def words(rows: GroupRows, width: int) -> list[int]:
    """One integer per group, as `BfpTensor.words` has them. width: bits of a magnitude."""
    packed = np.packbits(_stream(rows, width), axis=1, bitorder="little")
    return [int.from_bytes(word.tobytes(), "little") for word in packed]


def _require_layout(layout: Layout, width: int) -> None:
    """Reject an unknown layout, and planes of magnitudes that are not nibbles."""
    require_choice(layout, get_args(Layout), "Bfp", "layout")
    if layout == "planes" and width not in (4, 8):
        raise Refused(f"Bfp: layout 'planes' needs 4 or 8 mantissa bits, got {width}")


def _stream(rows: GroupRows, width: int) -> np.ndarray:
    """The bits of every group word, least significant first: uint8 (groups, 5 + group * (1 + width))."""
    parts = [_bits_of(rows.exponent[:, None], 5), rows.sign, _bits_of(rows.mantissa, width)]
    return np.concatenate(parts, axis=1)


def _bits_of(codes: np.ndarray, width: int) -> np.ndarray:
    """The low `width` bits of (rows, n) codes, least significant first: uint8 (rows, n * width)."""
    split = codes[:, :, None] >> np.arange(width, dtype=codes.dtype) & np.ones(1, codes.dtype)
    return split.astype(np.uint8).reshape(codes.shape[0], -1)


def unpack(
    data: bytes, shape: tuple[int, ...], axis: int, group: int, width: int, layout: Layout
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sign, mantissa and exponent of values of `shape` in groups of `group` along `axis`, as a tensor has them."""
    _require_layout(layout, width)
    rest = tuple(n for i, n in enumerate(shape) if i != axis)
    per_row = groups.count(shape[axis], group)
    number = prod(rest) * per_row
    rows = (_from_words if layout == "group" else _from_planes)(data, number, group, width)
    parts = [part.reshape(*rest, per_row * group) for part in (rows.sign, rows.mantissa)]
    for name, part in zip(("sign", "mantissa"), parts, strict=True):
        _require_zeros(part, shape[axis], name)
    sign, mantissa = (np.moveaxis(part[..., : shape[axis]], -1, axis) for part in parts)
    return sign, mantissa, np.moveaxis(rows.exponent.reshape(*rest, per_row), -1, axis)


def _from_words(data: bytes, number: int, group: int, width: int) -> GroupRows:
    group_bits = 5 + group * (1 + width)
    stream = bits.unpack(data, 1, number * group_bits).reshape(number, group_bits)
    cut = 5 + group
    mantissa = stream[:, cut:].reshape(number, group, width)
    return GroupRows(stream[:, 5:cut], _codes_of(mantissa), _codes_of(stream[:, None, :5])[:, 0])


def _codes_of(split: np.ndarray) -> np.ndarray:
    """The inverse of `_bits_of`, over the last axis: int64."""
    codes = np.zeros(split.shape[:-1], np.int64)
    for place in range(split.shape[-1]):
        codes |= split[..., place].astype(np.int64) << place
    return codes


def _from_planes(data: bytes, number: int, group: int, width: int) -> GroupRows:
    elements = number * group
    widths = [(5, number), (1, elements), *[(4, elements)] * (width // 4)]
    sizes = [(bits_of_code * count + 7) // 8 for bits_of_code, count in widths]
    ends = np.cumsum([0, *sizes]).tolist()
    if len(data) != ends[-1]:
        raise Refused(f"Bfp.unpack: {number} groups need {ends[-1]} bytes, got {len(data)}")
    planes = [
        bits.unpack(data[start : start + size], bits_of_code, count).astype(np.int64)
        for start, size, (bits_of_code, count) in zip(ends[:-1], sizes, widths, strict=True)
    ]
    return GroupRows(planes[1], planes[2] if width == 4 else planes[2] << 4 | planes[3], planes[0])


def _require_zeros(part: np.ndarray, length: int, name: str) -> None:
    """Reject elements beyond `length`, the fill of short groups, that are not 0."""
    bad = part[..., length:] != 0
    if bad.any():
        index = first_index(bad)
        raise Refused(
            f"Bfp.unpack: {name} of fill element {index[-1]} of row {index[:-1]} must be 0, "
            f"got {int(part[..., length:][index])}"
        )
