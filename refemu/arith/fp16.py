"""fp16: the 16-bit word, the fp16-valued float32 it is computed in, its conversions and its six operations.

At a boundary fp16 is a float16 array or its uint16 words. Inside it is an *fp16-valued float32*: float32 whose every
element is an fp16 value. One float32 operation on such values, rounded once to fp16, is the correctly rounded fp16
result, since 24 >= 2 * 11 + 2; only the fused multiply-add needs float64.
Decisions: D-arith-1 (one NaN), D-arith-2 (`Fp16Mode`), D-arith-3 (fused or not is said by the name of the operation).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import integers, selftest
from refemu.arith.casts import narrow as narrow
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_choice, require_range

__all__ = [
    "IEEE",
    "MAX",
    "MIN_NORMAL",
    "NAN_BITS",
    "OVERFLOW",
    "Fp16Mode",
    "Fp16Overflow",
    "Fp16Rounding",
    "Subnormals",
    "add16",
    "bits",
    "canonical",
    "div16",
    "fma16",
    "from_scaled",
    "is_fp16",
    "mul16",
    "order_key",
    "require_fp16",
    "round16",
    "round16_of_f64",
    "sqrt16",
    "sub16",
    "to_f16",
    "to_f32",
    "values",
]


MAX = 65_504.0  #: the largest finite value
MIN_NORMAL = 1 / (1 << 14)  #: the smallest value that is not subnormal
OVERFLOW = 65_520.0  #: from here on a magnitude rounds to infinity: halfway from MAX to 2**16
NAN_BITS = 0x7E00  #: the one NaN (D-arith-1)

Fp16Rounding: TypeAlias = Literal["half_even", "truncate"]  #: Modes of `Rounding` that an fp16 datapath has
Fp16Overflow: TypeAlias = Literal["inf", "saturate"]  #: Result of a magnitude of OVERFLOW or more
Subnormals: TypeAlias = Literal["keep", "flush"]  #: Treatment of magnitudes below MIN_NORMAL: values, or zeros

_WORD: dict[int, type[np.unsignedinteger]] = {2: np.uint16, 4: np.uint32, 8: np.uint64}  # by bytes of a float
_NAN = {2: NAN_BITS, 4: 0x7FC0_0000, 8: 0x7FF8_0000_0000_0000}


@dataclass(frozen=True)
class Fp16Mode:
    """Departures of an fp16 datapath from IEEE 754 (D-arith-2); the default has none."""

    rounding: Fp16Rounding = "half_even"  #: or "truncate": the bits below are dropped; overflow gives MAX
    overflow: Fp16Overflow = "inf"  #: or "saturate": MAX for every magnitude of OVERFLOW or more, infinity included
    subnormals: Subnormals = "keep"  #: or "flush": operands and rounded results below MIN_NORMAL become 0 of their sign

    def __post_init__(self) -> None:
        require_choice(self.rounding, get_args(Fp16Rounding), "Fp16Mode", "rounding")
        require_choice(self.overflow, get_args(Fp16Overflow), "Fp16Mode", "overflow")
        require_choice(self.subnormals, get_args(Subnormals), "Fp16Mode", "subnormals")

    @property
    def truncates(self) -> bool:
        """Whether results are cut off rather than rounded to nearest."""
        return self.rounding == "truncate"

    @property
    def flushes(self) -> bool:
        """Whether subnormals become 0."""
        return self.subnormals == "flush"


IEEE = Fp16Mode()  #: to nearest even, infinities, subnormals


def bits(x: ArrayLike) -> np.ndarray:
    """Words of float16 values, not copied.

    Parameters
    ----------
    x : array_like of float16
        Values.

    Returns
    -------
    ndarray of uint16
        Words.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype != np.float16:
        raise RefusedType(f"bits: float16 is needed, got dtype {array.dtype}")
    return array.view(np.uint16)


def values(u: ArrayLike) -> np.ndarray:
    """Float16 values of words; uint16 is not copied.

    Parameters
    ----------
    u : array_like of integers
        Words below 2**16.

    Returns
    -------
    ndarray of float16
        Values.

    Raises
    ------
    Refused
        A word is out of range.
    RefusedType
        Another dtype.
    """
    words = require_range(u, 0, 1 << 16, "values", "word")
    return words.astype(np.uint16, copy=False).view(np.float16)


def canonical(x: ArrayLike) -> np.ndarray:
    """Replace every NaN by the positive quiet one (D-arith-1).

    For values that are hashed, exported, compared or looked up: which payload survives an operation differs by CPU.

    Parameters
    ----------
    x : array_like of float16, float32 or float64
        Values.

    Returns
    -------
    ndarray of the same dtype
        A new array.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype.kind != "f" or array.itemsize not in _WORD:
        raise RefusedType(f"canonical: float16, float32 or float64 is needed, got dtype {array.dtype}")
    word = _WORD[array.itemsize]
    return np.where(np.isnan(array), word(_NAN[array.itemsize]), array.view(word)).view(array.dtype)


def to_f16(x: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Convert to float16 in one rounding from the exact value, NaN canonical.

    Integers are exact up to 2,048. float16 passes, but for NaN.

    Parameters
    ----------
    x : array_like of float16, float32, float64 or integers
        Values.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float16
        Values.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype == np.float16:
        return canonical(array)
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)  # inexact from 2**53 on only, far above the overflow to infinity
    elif array.dtype not in (np.float32, np.float64):
        raise RefusedType(f"to_f16: floats or integers are needed, got dtype {array.dtype}")
    return canonical(narrow(_round(array, mode)))


def to_f32(x: ArrayLike) -> np.ndarray:
    """Convert float16 to fp16-valued float32: exact, NaN canonical.

    Parameters
    ----------
    x : array_like of float16
        Values.

    Returns
    -------
    ndarray of float32
        Values.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype != np.float16:
        raise RefusedType(f"to_f32: float16 is needed, got dtype {array.dtype}")
    return canonical(array.astype(np.float32))


def round16(x: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Round float32 once to fp16: to nearest, ties to even, infinity from 65,520 on, with the sign of zero.

    Parameters
    ----------
    x : array_like of float32 or float16
        Values. float64 goes through `round16_of_f64`, since two roundings are wrong.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype not in (np.float32, np.float16):
        raise RefusedType(f"round16: float32 is needed, got dtype {array.dtype}")
    return _round(array.astype(np.float32, copy=False), mode)


def round16_of_f64(x: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Round float64 once to fp16, never by way of float32.

    Parameters
    ----------
    x : array_like of float64
        Values.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype != np.float64:
        raise RefusedType(f"round16_of_f64: float64 is needed, got dtype {array.dtype}")
    return _round(array, mode)


def _round(x: np.ndarray, mode: Fp16Mode) -> np.ndarray:
    selftest.require_round_to_nearest()
    rounded = _truncated(x) if mode.truncates else narrow(x)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        result = rounded.astype(np.float32)
    if mode.overflow == "saturate":
        result = np.where(np.abs(x) >= OVERFLOW, np.copysign(np.float32(MAX), result), result)
    return _flush(result) if mode.flushes else result


def _truncated(x: np.ndarray) -> np.ndarray:
    """x cut off to fp16 values, exact in the dtype of x: finite overflow gives MAX, infinity stays."""
    size = x.itemsize
    drop = {4: 13, 8: 42}[size]  # fraction bits beyond fp16's ten
    word = x.view(_WORD[size])
    normal = ((word >> _WORD[size](drop)) << _WORD[size](drop)).view(x.dtype)
    magnitude = np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.ldexp(np.trunc(np.ldexp(x, 24)), -24)  # below MIN_NORMAL the quantum is 2**-24
    cut = np.where(magnitude < MIN_NORMAL, small, normal)
    cut = np.where((magnitude > MAX) & np.isfinite(x), np.copysign(x.dtype.type(MAX), x), cut)
    return np.where(np.isnan(x), x, cut)


def _flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < MIN_NORMAL, np.copysign(x.dtype.type(0), x), x)


def from_scaled(n: ArrayLike, exponent: ArrayLike = 0, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Round n * 2**exponent once to fp16; arguments broadcast.

    Parameters
    ----------
    n : array_like of integers
        |n| < 2**53.
    exponent : array_like of integers
        -1000 to 900, so that float64 holds the product.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is out of range.
    RefusedType
        Another dtype.
    """
    number = integers.as_int64(n, "from_scaled")
    bad = (number <= -(1 << 53)) | (number >= 1 << 53)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"from_scaled: {int(number[index])}{at(index)} is outside (-2**53, 2**53)")
    power = require_range(exponent, -1000, 901, "from_scaled", "exponent").astype(np.int32)
    return round16_of_f64(np.ldexp(number.astype(np.float64), power), mode)


def is_fp16(x: np.ndarray) -> np.ndarray:
    """Whether floats hold fp16 values; any NaN is one.

    Parameters
    ----------
    x : ndarray of float32 or float64
        Values.

    Returns
    -------
    ndarray of bool
        In the shape of x.
    """
    return (narrow(x).astype(x.dtype) == x) | np.isnan(x)


def require_fp16(x: ArrayLike, thing: str, name: str) -> np.ndarray:
    """Check that values are fp16 and widen them.

    Parameters
    ----------
    x : array_like of float16 or float32
        Values.
    thing, name : str
        Start of the error message, `<thing>: <name> must hold fp16 values, got 0.1 at index (0, 3)`.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype != np.float32:
        raise RefusedType(f"{thing}: {name} must be float16 or float32, got dtype {array.dtype}")
    bad = ~is_fp16(array)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: {name} must hold fp16 values, got {array[index]!s}{at(index)}")
    return array


def require_fp16_values(x: ArrayLike, thing: str, name: str) -> np.ndarray:
    """As `require_fp16`, of float64 too, which is what Python's own numbers become."""
    array = as_array(x)
    if array.dtype != np.float64:
        return require_fp16(array, thing, name)
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    bad = ~(is_fp16(narrow) & ((narrow == array) | np.isnan(array)))
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: {name} must hold fp16 values, got {array[index]!s}{at(index)}")
    return narrow


def add16(a: ArrayLike, b: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Add, rounded once.

    Parameters
    ----------
    a, b : array_like of float16, or of float32 that holds fp16 values
        Operands; they broadcast.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    x, y = _operands("add16", mode, a=a, b=b)
    with np.errstate(all="ignore"):
        return _result(x + y, mode)


def sub16(a: ArrayLike, b: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Subtract, a - b rounded once.

    Parameters
    ----------
    a, b : array_like of float16, or of float32 that holds fp16 values
        Operands; they broadcast.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    x, y = _operands("sub16", mode, a=a, b=b)
    with np.errstate(all="ignore"):
        return _result(x - y, mode)


def mul16(a: ArrayLike, b: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Multiply, rounded once.

    Parameters
    ----------
    a, b : array_like of float16, or of float32 that holds fp16 values
        Operands; they broadcast.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    x, y = _operands("mul16", mode, a=a, b=b)
    with np.errstate(all="ignore"):
        return _result(x * y, mode)


def div16(a: ArrayLike, b: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Divide, a / b rounded once; x / 0 is infinite, 0 / 0 NaN.

    Parameters
    ----------
    a, b : array_like of float16, or of float32 that holds fp16 values
        Operands; they broadcast.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    x, y = _operands("div16", mode, a=a, b=b)
    with np.errstate(all="ignore"):
        return _result(x / y, mode)


def sqrt16(a: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Take the square root, rounded once; -0 gives -0, negative values NaN.

    Parameters
    ----------
    a : array_like of float16, or of float32 that holds fp16 values
        Operand.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    (x,) = _operands("sqrt16", mode, a=a)
    with np.errstate(all="ignore"):
        return _result(np.sqrt(x), mode)


def fma16(a: ArrayLike, b: ArrayLike, c: ArrayLike, mode: Fp16Mode = IEEE) -> np.ndarray:
    """Multiply and add, a * b + c rounded once: not `mul16` then `add16` (D-arith-3).

    In float64 the product is exact, and an inexact sum is too near an fp16 value to reach a midpoint. float32 does
    not suffice.

    Parameters
    ----------
    a, b, c : array_like of float16, or of float32 that holds fp16 values
        Operands; they broadcast.
    mode : Fp16Mode
        Departures from IEEE 754.

    Returns
    -------
    ndarray of float32
        fp16 values.

    Raises
    ------
    Refused
        A value is not fp16.
    RefusedType
        Another dtype.
    """
    operands = _operands("fma16", mode, a=a, b=b, c=c)
    with np.errstate(all="ignore"):
        x, y, z = (operand.astype(np.float64) for operand in operands)  # a signalling NaN warns here
        product = x * y
        total = product + z
        return _result(round_to_odd(total, product, z) if mode.truncates else total, mode)


def _operands(thing: str, mode: Fp16Mode, **operands: ArrayLike) -> list[np.ndarray]:
    """The operands as fp16-valued floats, flushed if `mode` says so, in the width that suits the rounding.

    Truncation needs float64: there sums are exact, quotients and roots too near the exact value to cross an fp16 one,
    while a float32 sum such as 65504 - 2**-24 rounds up to the value that truncation must not reach.
    """
    arrays = [require_fp16(operand, thing, name) for name, operand in operands.items()]
    if mode.flushes:
        arrays = [_flush(array) for array in arrays]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return [array.astype(np.float64) for array in arrays] if mode.truncates else arrays


def _result(exact: np.ndarray, mode: Fp16Mode) -> np.ndarray:
    return round16_of_f64(exact, mode) if exact.dtype == np.float64 else round16(exact, mode)


def round_to_odd(total: np.ndarray, p: np.ndarray, c: np.ndarray) -> np.ndarray:
    """total = p + c, rounded to nearest, as round to odd has it: an inexact sum ends in 1, on the side of its error."""
    back = total - p
    error = (p - (total - back)) + (c - back)
    word = np.asarray(total).view(np.int64)
    step = (np.asarray(error).view(np.int64) ^ word) >> 63 | 1  # away from zero where the error points that way
    inexact = (error != 0) & np.isfinite(error) & (word & 1 == 0)
    return np.asarray(word + step * inexact).view(np.float64)


def order_key(u: ArrayLike, total: bool = False) -> np.ndarray:
    """Map fp16 words to integers of the same order, for comparing without floats.

    In IEEE order -0 = +0, both key 0. A NaN is beyond the infinity of its sign.

    Parameters
    ----------
    u : array_like of uint16 or float16
        Words or values.
    total : bool
        Order -0 before +0 (D-arith-11).

    Returns
    -------
    ndarray of int64
        Keys.

    Raises
    ------
    Refused
        A word is out of range.
    RefusedType
        Another dtype.
    """
    array = as_array(u)
    word = bits(array) if array.dtype == np.float16 else require_range(array, 0, 1 << 16, "order_key", "word")
    key = word.astype(np.int64)
    return np.where(key < 0x8000, key, (key ^ 0x7FFF) - 0x1_0000 if total else 0x8000 - key)
