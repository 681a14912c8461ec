"""Integers of a stated width: range checks, wrap, saturate, exact sums and products. All arithmetic is int64.

Decision: D-arith-10 (the unit states what an overflow does; by default it is an error).
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_choice, require_integers

__all__ = [
    "Overflow",
    "Right",
    "as_int64",
    "fits",
    "from_float",
    "limit",
    "limits",
    "matmul",
    "peak",
    "saturate",
    "total",
    "wrap",
]


#: Rule for a value that does not fit its register (D-arith-10)
Overflow: TypeAlias = Literal[
    "refuse",  # an error: silent overflow is never a golden value
    "wrap",  # the low bits stay
    "saturate",  # the nearest value that fits
]


def as_int64(values: ArrayLike, thing: str) -> np.ndarray:
    """Convert integers to int64, not copied if they are.

    Parameters
    ----------
    values : array_like of integers
        Values below 2**63.
    thing : str
        Start of the error message.

    Returns
    -------
    ndarray of int64
        Values.

    Raises
    ------
    Refused
        A value does not fit.
    RefusedType
        Another dtype.
    """
    array = require_integers(values, thing)
    if array.dtype == np.uint64 and (bad := array >> np.uint64(63) != 0).any():
        index = first_index(bad)
        raise Refused(f"{thing}: {int(array[index])}{at(index)} does not fit 64 signed bits")
    return array.astype(np.int64, copy=False)


def limits(bits: int, signed: bool) -> tuple[int, int]:
    """Smallest and largest value of a width.

    Parameters
    ----------
    bits : int
        Width.
    signed : bool
        Two's complement.

    Returns
    -------
    smallest, largest : int
        Limits.
    """
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def require_bits(bits: int, thing: str) -> int:
    """`bits` if it is a width that int64 holds for both signs, 1 to 63; else raises in the name of `thing`."""
    if not 1 <= bits <= 63:
        raise Refused(f"{thing}: bits must be in [1, 63], got {bits}")
    return bits


def fits(v: ArrayLike, bits: int, signed: bool) -> np.ndarray:
    """Whether values fit a width.

    Parameters
    ----------
    v : array_like of integers
        Values.
    bits : int
        Width, 1 to 63.
    signed : bool
        Two's complement.

    Returns
    -------
    ndarray of bool
        In the shape of v.

    Raises
    ------
    Refused
        The width is out of range.
    RefusedType
        Another dtype.
    """
    low, high = limits(require_bits(bits, "fits"), signed)
    values = as_int64(v, "fits")
    return (values >= low) & (values <= high)


def require_width(v: ArrayLike, bits: int, signed: bool, name: str) -> np.ndarray:
    """`v` as int64 if every value fits `bits` bits; Refused names the first one that does not.

    name: what the message starts with, the register or port.
    """
    require_bits(bits, name)
    values = as_int64(v, name)
    bad = ~fits(values, bits, signed)
    if bad.any():
        index = first_index(bad)
        kind = "signed" if signed else "unsigned"
        raise Refused(f"{name}: {int(values[index])}{at(index)} does not fit {bits} {kind} bits")
    return values


def wrap(v: ArrayLike, bits: int, signed: bool) -> np.ndarray:
    """Keep the low bits of values.

    A ring: a sum wrapped once at the end equals one wrapped at every step, in any order.

    Parameters
    ----------
    v : array_like of integers
        Values.
    bits : int
        Width, 1 to 63.
    signed : bool
        Read as two's complement.

    Returns
    -------
    ndarray of int64
        Wrapped values.

    Raises
    ------
    Refused
        The width is out of range.
    RefusedType
        Another dtype.
    """
    require_bits(bits, "wrap")
    low_bits = as_int64(v, "wrap") & ((1 << bits) - 1)
    if not signed:
        return low_bits
    top = 1 << (bits - 1)
    return (low_bits ^ top) - top  # v + top first, as the textbook has it, would overflow int64


def saturate(v: ArrayLike, bits: int, signed: bool) -> np.ndarray:
    """Clamp values to a width.

    Not a ring: a saturating sum is stepped in its stated order.

    Parameters
    ----------
    v : array_like of integers
        Values.
    bits : int
        Width, 1 to 63.
    signed : bool
        Two's complement.

    Returns
    -------
    ndarray of int64
        Nearest values that fit.

    Raises
    ------
    Refused
        The width is out of range.
    RefusedType
        Another dtype.
    """
    low, high = limits(require_bits(bits, "saturate"), signed)
    return np.minimum(np.maximum(as_int64(v, "saturate"), low), high)


def limit(v: ArrayLike, bits: int, signed: bool, overflow: Overflow, name: str) -> np.ndarray:
    """Put values into a register (D-arith-10).

    Parameters
    ----------
    v : array_like of integers
        Values.
    bits : int
        Width, 1 to 63.
    signed : bool
        Two's complement.
    overflow : {"refuse", "wrap", "saturate"}
        Rule for a value that does not fit.
    name : str
        Start of the error message.

    Returns
    -------
    ndarray of int64
        Values of the register.

    Raises
    ------
    Refused
        A value does not fit and the rule is `"refuse"`, or the rule is unknown.
    RefusedType
        Another dtype.
    """
    require_choice(overflow, get_args(Overflow), name, "overflow")
    match overflow:
        case "refuse":
            return require_width(v, bits, signed, name)
        case "wrap":
            return wrap(v, bits, signed)
        case "saturate":
            return saturate(v, bits, signed)


def total(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> np.ndarray:
    """Sum integers exactly; bools count as 0 and 1.

    Parameters
    ----------
    x : array_like of integers or bool
        Terms.
    axis : int or tuple of int, optional
        Axes of the sum; by default all.

    Returns
    -------
    ndarray of int64
        Sums.

    Raises
    ------
    Refused
        max|x| times the number of terms reaches 2**63.
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    array = require_integers(array.view(np.uint8) if array.dtype == np.bool_ else array, "total")
    terms = array.size if axis is None else _length(array.shape, axis)
    bound = peak(array) * terms
    if bound >= 1 << 63:
        raise Refused(f"total: {terms} terms of magnitude up to {peak(array)} can leave int64")
    return np.asarray(np.sum(array, axis=axis, dtype=np.int64))


def _length(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> int:
    length = 1
    for dimension in (axis,) if isinstance(axis, int) else axis:
        length *= shape[dimension]
    return length


def peak(x: np.ndarray) -> int:
    """Largest magnitude of integers, 0 if there are none.

    Parameters
    ----------
    x : ndarray of integers
        Values.

    Returns
    -------
    int
        Magnitude.
    """
    return max(-int(x.min()), int(x.max())) if x.size else 0


_END = float(1 << 63)  # the first magnitude outside int64


def from_float(x: ArrayLike) -> np.ndarray:
    """Convert floats that hold integers to int64.

    Parameters
    ----------
    x : array_like of floats
        Integers below 2**63 in magnitude.

    Returns
    -------
    ndarray of int64
        Values.

    Raises
    ------
    Refused
        NaN, infinity, a fraction or a magnitude of 2**63 or more, with the first bad index.
    RefusedType
        Another dtype.
    """
    array = as_array(x)
    if array.dtype.kind != "f":
        raise RefusedType(f"from_float: floats are needed, got dtype {array.dtype}")
    if array.dtype == np.float16:
        array = array.astype(np.float32)  # fp16 cannot hold the bound below
    bad = ~((np.abs(array) < _END) & (np.trunc(array) == array))
    if bad.any():
        index = first_index(bad)
        raise Refused(f"from_float: {_describe(float(array[index]))}{at(index)}")
    return array.astype(np.int64)


def _describe(value: float) -> str:
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "infinity" if value > 0 else "-infinity"
    return f"{value!r} is outside int64" if abs(value) >= _END else f"{value!r} is not an integer"


class Right:
    """Right factor of `matmul`, prepared once: its bound, and its values in the narrowest type that stays exact."""

    def __init__(self, b: ArrayLike, largest: int = 1) -> None:
        """Prepare a right factor.

        Parameters
        ----------
        b : array_like of integers (K, N)
            Factor.
        largest : int
            Magnitude of the left factors to expect; more only costs a conversion.

        Raises
        ------
        RefusedType
            Another dtype or shape.
        """
        array = require_integers(b, "matmul")
        if array.ndim != 2:
            raise RefusedType(f"matmul: b must have two axes, got shape {array.shape}")
        self.column_sum: int = _column_sum(array)  #: max over columns of the sum of magnitudes
        self.values: np.ndarray = array.astype(_exact_dtype(max(largest, 1) * self.column_sum))  #: (K, N)
        self.values.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (K, N)."""
        return self.values.shape

    def __repr__(self) -> str:
        return f"<Right {self.shape} {self.values.dtype} column_sum={self.column_sum}>"


def matmul(a: ArrayLike, b: ArrayLike | Right) -> np.ndarray:
    """Multiply integer matrices exactly.

    With bound = max|a| * max over columns of sum|b| below 2**24 (2**53) every partial sum, in any order and fused or
    not, is an integer that float32 (float64) holds, so BLAS gives the exact answer.

    Parameters
    ----------
    a : array_like of integers (..., K)
        Left factor.
    b : array_like of integers (K, N) or Right
        Right factor.

    Returns
    -------
    ndarray of int64 (..., N)
        Product.

    Raises
    ------
    Refused
        A sum could leave int64.
    RefusedType
        Another dtype or shape.
    """
    left = require_integers(a, "matmul")
    largest = peak(left)
    right = b if isinstance(b, Right) else Right(b, largest)
    if left.ndim < 1 or left.shape[-1] != right.shape[0]:
        raise RefusedType(f"matmul: shapes {left.shape} and {right.shape} do not fit")
    bound = largest * right.column_sum
    if bound >= 1 << 63:
        raise Refused(f"matmul: a sum can reach {bound}, which is outside int64")
    dtype = max(_exact_dtype(bound), right.values.dtype, key=_WIDENING.index)
    product = left.astype(dtype) @ right.values.astype(dtype, copy=False)
    return product.astype(np.int64, copy=False)


_WIDENING: list[np.dtype] = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)]


def _exact_dtype(bound: int) -> np.dtype:
    """The narrowest of `_WIDENING` that holds every integer up to `bound`."""
    return _WIDENING[(bound >= 1 << 24) + (bound >= 1 << 53)]


def _column_sum(b: np.ndarray) -> int:
    """max over columns of the sum of magnitudes of (K, N) integers; where that could leave int64, a bound of it."""
    bound = peak(b) * b.shape[0]
    return bound if bound >= 1 << 63 else peak(total(np.abs(b.astype(np.int64)), 0))
