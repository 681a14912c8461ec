"""How block floating point codes lie in memory: group words, or planes of which demotion drops the last.

Paper: [harmonia §III-B], [harmonia §IV-C, Fig. 14]. Decision: D-harmonia-34 (the paper gives no packing).
"""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from refemu.arith import bits
from refemu.arith.checks import Refused, at, first_index, require_choice
from refemu.formats import groups

if TYPE_CHECKING:
    from refemu.formats.bfp import Bfp
    from refemu.formats.bfp_tensor import BfpTensor

LAYOUTS = ("group", "planes")


def require_codes(array: np.ndarray, limit: int, name: str) -> None:
    """Refuse the first code outside [0, limit) with field and index."""
    if array.size == 0 or ((array.dtype.kind == "u" or int(array.min()) >= 0) and int(array.max()) < limit):
        return
    index = first_index((array < 0) | (array >= limit))
    raise Refused(f"BfpTensor: {name} {int(array[index])}{at(index)} is outside [0, {limit})")


def require_layout(fmt: "Bfp", layout: str) -> None:
    """Refuse an unknown layout, and planes of a format whose magnitudes are not nibbles."""
    require_choice(layout, LAYOUTS, "Bfp", "layout")
    if layout == "planes" and fmt.mantissa_bits not in (4, 8):
        raise Refused(f"Bfp: layout 'planes' needs 4 or 8 mantissa bits, got {fmt.mantissa_bits}")


def pack(tensor: "BfpTensor", layout: str) -> bytes:
    """`BfpTensor.pack`."""
    require_layout(tensor.format, layout)
    if layout == "group":
        return np.packbits(_stream(tensor).reshape(-1), bitorder="little").tobytes()
    exponent, sign, mantissa = _by_group(tensor)
    nibbles = [bits.pack(mantissa >> shift & 15, 4) for shift in ((0,) if tensor.format.mantissa_bits == 4 else (4, 0))]
    return b"".join([bits.pack(exponent, 5), bits.pack(sign, 1), *nibbles])


def words(tensor: "BfpTensor") -> list[int]:
    """`BfpTensor.words`."""
    rows = np.packbits(_stream(tensor), axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def _by_group(tensor: "BfpTensor") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exponents (groups,), signs and mantissas (groups, group), the axis moved last, in C order."""
    size = tensor.format.group
    parts = [groups.split(part, size, tensor.axis).reshape(-1, size) for part in (tensor.sign, tensor.mantissa)]
    return np.moveaxis(tensor.exponent, tensor.axis, -1).reshape(-1), parts[0], parts[1]


def _stream(tensor: "BfpTensor") -> np.ndarray:
    """The bits of every group word, least significant first: uint8 (groups, group_bits)."""
    exponent, sign, mantissa = _by_group(tensor)
    parts = [_bits_of(exponent[:, None], 5), sign, _bits_of(mantissa, tensor.format.mantissa_bits)]
    return np.concatenate(parts, axis=1)


def _bits_of(codes: np.ndarray, width: int) -> np.ndarray:
    """The low `width` bits of (rows, n) codes, least significant first: uint8 (rows, n * width)."""
    split = codes[:, :, None] >> np.arange(width, dtype=codes.dtype) & np.ones(1, codes.dtype)
    return split.astype(np.uint8).reshape(codes.shape[0], -1)


def unpack(
    fmt: "Bfp", data: bytes, shape: tuple[int, ...], axis: int, layout: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sign, mantissa and exponent of `Bfp.unpack`, in the places that a tensor has them."""
    require_layout(fmt, layout)
    rest = tuple(n for i, n in enumerate(shape) if i != axis)
    per_row = groups.count(shape[axis], fmt.group)
    number = prod(rest) * per_row
    exponent, sign, mantissa = (_from_words if layout == "group" else _from_planes)(fmt, data, number)
    parts = [part.reshape(*rest, per_row * fmt.group) for part in (sign, mantissa)]
    for name, part in zip(("sign", "mantissa"), parts, strict=True):
        _require_zeros(part, shape[axis], name)
    sign, mantissa = (np.moveaxis(part[..., : shape[axis]], -1, axis) for part in parts)
    return sign, mantissa, np.moveaxis(exponent.reshape(*rest, per_row), -1, axis)


def _from_words(fmt: "Bfp", data: bytes, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    stream = bits.unpack(data, 1, number * fmt.group_bits).reshape(number, fmt.group_bits)
    cut = 5 + fmt.group
    mantissa = stream[:, cut:].reshape(number, fmt.group, fmt.mantissa_bits)
    return _codes_of(stream[:, None, :5])[:, 0], stream[:, 5:cut], _codes_of(mantissa)


def _codes_of(split: np.ndarray) -> np.ndarray:
    """The inverse of `_bits_of`, over the last axis: int64."""
    codes = np.zeros(split.shape[:-1], np.int64)
    for place in range(split.shape[-1]):
        codes |= split[..., place].astype(np.int64) << place
    return codes


def _from_planes(fmt: "Bfp", data: bytes, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    elements = number * fmt.group
    widths = [(5, number), (1, elements), *[(4, elements)] * (fmt.mantissa_bits // 4)]
    sizes = [(width * count + 7) // 8 for width, count in widths]
    ends = np.cumsum([0, *sizes]).tolist()
    if len(data) != ends[-1]:
        raise Refused(f"Bfp.unpack: {number} groups need {ends[-1]} bytes, got {len(data)}")
    planes = [
        bits.unpack(data[start : start + size], width, count).astype(np.int64)
        for start, size, (width, count) in zip(ends[:-1], sizes, widths, strict=True)
    ]
    mantissa = planes[2] if fmt.mantissa_bits == 4 else planes[2] << 4 | planes[3]
    return planes[0], planes[1], mantissa


def _require_zeros(part: np.ndarray, length: int, name: str) -> None:
    """Refuse elements beyond `length`, the fill of short groups, that are not 0."""
    bad = part[..., length:] != 0
    if bad.any():
        index = first_index(bad)
        raise Refused(
            f"Bfp.unpack: {name} of fill element {index[-1]} of row {index[:-1]} must be 0, "
            f"got {int(part[..., length:][index])}"
        )
