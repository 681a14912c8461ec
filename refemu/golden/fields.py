"""Values at a port and the unsigned bit patterns that vectors hold, both ways."""

from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index
from refemu.arith.integers import limits
from refemu.units.unit import Port

_FLOATS: dict[str, tuple[np.dtype, int]] = {
    "f16": (np.dtype(np.float16), 0x7E00),
    "f32": (np.dtype(np.float32), 0x7FC00000),
}


def dtype_of(bits: int) -> np.dtype:
    """The smallest of u1, u2, u4, u8 that holds `bits` bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.uint64)


def mask_of(bits: int) -> int:
    """`bits` ones."""
    return (1 << bits) - 1


def encode(values: Any, port: Port, thing: str) -> np.ndarray:
    """Bit patterns of `values` at `port`, same shape, in the port's dtype.

    values: integers or bools in the port's range, or for encodings f16 and f32 floats of just that type (NaN becomes
    the canonical one). thing: what the messages start with. Refused: a value that does not fit, with its index.
    """
    array = np.asarray(values)
    if array.dtype == np.bool_:
        array = array.view(np.uint8)
    if array.dtype.kind == "f":
        return _float_bits(array, port, thing)
    if array.dtype.kind not in "iu":
        raise RefusedType(f"{thing}: dtype integer of {port.bits} bits is needed, got {array.dtype}")
    low, high = limits(port.bits, port.signed)
    bad = (array < low) | (array > high)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: {int(array[index])}{at(index)} is outside [{low}, {high}]")
    unsigned = array.astype(np.int64).view(np.uint64) if array.dtype.kind == "i" else array
    return _canonical((unsigned & unsigned.dtype.type(_low(unsigned, port.bits))).astype(dtype_of(port.bits)), port)


def _low(array: np.ndarray, bits: int) -> int:
    """`bits` ones, as far as the dtype of `array` has them."""
    return mask_of(min(bits, 8 * array.dtype.itemsize))


def _float_bits(array: np.ndarray, port: Port, thing: str) -> np.ndarray:
    needed = str(_FLOATS[port.kind][0]) if port.kind in _FLOATS else f"integer of {port.bits} bits"
    if str(array.dtype) != needed:
        raise RefusedType(f"{thing}: dtype {needed} is needed, got {array.dtype}")
    return _canonical(np.ascontiguousarray(array).view(dtype_of(port.bits)).reshape(array.shape), port)


def _canonical(codes: np.ndarray, port: Port) -> np.ndarray:
    """One NaN only: payload and sign of a NaN are the processor's, not the unit's (D-arith-1)."""
    if port.kind not in _FLOATS:
        return codes
    dtype, nan = _FLOATS[port.kind]
    return np.where(np.isnan(codes.view(dtype)), codes.dtype.type(nan), codes)


def decode(codes: np.ndarray, port: Port) -> np.ndarray:
    """Values of bit patterns as the unit takes them: int64 for signed ports, else the unsigned codes themselves."""
    if not port.signed:
        return codes
    if port.bits == 64:
        return codes.view(np.int64)
    sign = 1 << (port.bits - 1)
    return (codes.astype(np.int64) ^ sign) - sign
