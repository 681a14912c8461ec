"""Conversion between values at a port and the unsigned bit patterns of vectors.

Files and pipes have an axis of lanes only if there are several: `encode` drops the axis of one lane, `decode` adds it.
"""

from typing import Any

import numpy as np

from refemu.arith import tensors
from refemu.arith.checks import Refused, RefusedType, at, first_index, host
from refemu.arith.integers import limits
from refemu.units.ports import Port

_FLOATS: dict[str, tuple[np.dtype, int, int]] = {  # with infinity and the one NaN
    "f16": (np.dtype(np.float16), 0x7C00, 0x7E00),
    "f32": (np.dtype(np.float32), 0x7F800000, 0x7FC00000),
}


def dtype_of(bits: int) -> np.dtype:
    """The smallest of u1, u2, u4, u8 that holds `bits` bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.uint64)


def mask_of(bits: int) -> int:
    """`bits` ones."""
    return (1 << bits) - 1


def encode(values: Any, port: Port, thing: str) -> np.ndarray:
    """Bit patterns of `values` at `port`, in the port's dtype and the same shape without an axis of one lane.

    values: integers or bools in the port's range, or for encodings f16 and f32 floats of exactly that type. The
    bits of a NaN among floats depend on the processor, so it becomes the canonical one; integers are unchanged
    (D-arith-1). thing: what the messages start with. Refused: a value that does not fit, with its index.
    """
    array = host(values, thing).values
    if port.lanes == 1:
        if array.shape[-1:] != port.shape:
            raise RefusedType(f"{thing}: the last axis must hold 1 lane, got shape {array.shape}")
        array = array[..., 0]
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if array.dtype.kind == "f":
        return _float_bits(array, port, thing)
    if array.dtype.kind not in "iu":
        raise RefusedType(f"{thing}: integers of {port.bits} bits are needed, got dtype {array.dtype}")
    if not _fits(array, port):
        low, high = limits(port.bits, port.signed)
        index = first_index((array < low) | (array > high))
        raise Refused(f"{thing}: {int(array[index])}{at(index)} is outside [{low}, {high}]")
    codes = array.astype(port.dtype, copy=False).view(dtype_of(port.bits))
    return codes & codes.dtype.type(mask_of(port.bits)) if port.signed else codes


def lanes_of(values: Any, port: Port, thing: str) -> np.ndarray:
    """Values or a tensor of a device, in the port's lanes: words of another width, and signed patterns, become its own.

    A tensor of bytes or of wider integers is viewed as the words of a port of several lanes, if the last axis has
    exactly their bytes, little-endian; int16 of a port of 16 unsigned bits, or of fp16 patterns, as uint16.
    """
    tensor = host(values, thing)
    if tensor.dtype in tensors.NARROW:
        raise RefusedType(f"{thing}: port {port.name} has {port.bits} bits, encoding {port.kind}, got {tensor.dtype}")
    array = tensor.array
    word = dtype_of(port.bits)
    if array.dtype.kind not in "iu" or port.signed or port.bits != 8 * word.itemsize:
        return array
    if port.lanes is None or array.shape[-1:] == port.shape:
        same = array.dtype.kind == "i" and array.dtype.itemsize == word.itemsize
        return array.view(word) if same else array
    if array.ndim and array.shape[-1] * array.itemsize == port.count * word.itemsize:
        return np.ascontiguousarray(array).view(word)
    return array


def narrow(values: Any, port: Port) -> np.ndarray:
    """Integers that fit `port`, in the dtype of its values; anything else unchanged, so that `encode` raises the error.

    values: an array of any shape and dtype. Returns the same shape.
    """
    array = np.asarray(values)
    return array.astype(port.dtype, copy=False) if array.dtype.kind in "iu" and _fits(array, port) else array


def _fits(array: np.ndarray, port: Port) -> bool:
    """Whether all integers of `array` are values of `port`; most often its dtype says so."""
    low, high = limits(port.bits, port.signed)
    every = np.iinfo(array.dtype)
    if (low <= every.min and every.max <= high) or not array.size:
        return True
    return low <= int(array.min()) and int(array.max()) <= high


def _float_bits(array: np.ndarray, port: Port, thing: str) -> np.ndarray:
    if port.kind not in _FLOATS:
        raise RefusedType(f"{thing}: integers of {port.bits} bits are needed, got dtype {array.dtype}")
    needed = str(_FLOATS[port.kind][0])
    if str(array.dtype) != needed:
        raise RefusedType(f"{thing}: dtype {needed} is needed, got {array.dtype}")
    return canonical(np.ascontiguousarray(array).view(dtype_of(port.bits)).reshape(array.shape), port)


def holds_floats(port: Port) -> bool:
    """Whether the words of a port are floats, and so may be NaN."""
    return port.kind in _FLOATS


def infinity(port: Port) -> int:
    """Word of infinity at a port of floats."""
    return _FLOATS[port.kind][1]


def nan(port: Port) -> int:
    """Word of the NaN of sets at a port of floats."""
    return _FLOATS[port.kind][2]


def is_nan(codes: np.ndarray, port: Port) -> np.ndarray:
    """Which words of a port are NaN: bool, False throughout where it holds no floats."""
    if not holds_floats(port):
        return np.zeros(codes.shape, np.bool_)
    infinity = codes.dtype.type(_FLOATS[port.kind][1])
    above: np.ndarray = codes & codes.dtype.type(mask_of(port.bits - 1)) > infinity
    return above


def canonical(codes: np.ndarray, port: Port) -> np.ndarray:
    """`codes` with one NaN: its payload and sign depend on the processor, not on the unit (D-arith-1)."""
    strange = is_nan(codes, port)
    return np.where(strange, codes.dtype.type(_FLOATS[port.kind][2]), codes) if strange.any() else codes


def stimulus(codes: np.ndarray, port: Port) -> np.ndarray:
    """`codes` as sets and pipes send them: with one NaN, unless the unit distinguishes NaNs (D-arith-1)."""
    return codes if port.payload else canonical(codes, port)


def decode(codes: np.ndarray, port: Port) -> np.ndarray:
    """Values of bit patterns for a unit: int64 for signed ports, else the unsigned codes."""
    if port.lanes == 1:
        codes = codes[..., None]
    if not port.signed:
        return codes
    if port.bits == 64:
        return codes.view(np.int64)
    sign = 1 << (port.bits - 1)
    return (codes.astype(np.int64) ^ sign) - sign
