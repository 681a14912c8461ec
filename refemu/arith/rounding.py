"""Rounding of integers, exact ratios and exact floats to an integer, in eight modes."""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice
from refemu.arith.integers import as_int64

__all__ = ["Rounding", "div_round", "require_mode", "round_float", "shift_round"]


#: Mode of a rounding: the first three by direction, the others to the nearest integer, by tie rule
Rounding: TypeAlias = Literal[
    "floor",  # toward -infinity: two's complement truncation
    "ceil",  # toward +infinity
    "truncate",  # toward 0: sign-magnitude truncation
    "half_even",  # ties to the even neighbour: IEEE 754
    "half_away",  # ties away from 0: C's `round`
    "half_up",  # ties toward +infinity
    "half_down",  # ties toward -infinity: argmin over an ascending table
    "half_zero",  # ties toward 0
]


def shift_round(n: ArrayLike, s: ArrayLike, mode: Rounding) -> np.ndarray:
    """Round n / 2**s to an integer; arguments broadcast.

    Parameters
    ----------
    n : array_like of integers
        |n| < 2**61.
    s : array_like of integers
        Places; a negative one shifts left exactly.
    mode : str
        One of `Rounding`.

    Returns
    -------
    ndarray of int64
        Rounded quotients.

    Raises
    ------
    Refused
        |n| is 2**61 or more, a left shift leaves int64, or the mode is unknown.
    RefusedType
        Another dtype.
    """
    rounding = require_mode(mode, "shift_round")
    number, shift = np.broadcast_arrays(as_int64(n, "shift_round"), as_int64(s, "shift_round"))
    _refuse_first((number <= -(1 << 61)) | (number >= 1 << 61), number, "shift_round", "is outside (-2**61, 2**61)")
    right = np.minimum(np.maximum(shift, 1), 62)  # |n| < 2**61: from 62 on every shift gives the same
    rounded = np.where(shift > 0, _shift_right(number, right, rounding), number)
    if not (shift < 0).any():
        return rounded
    left = np.minimum(np.maximum(-shift, 0), 62)
    wide = (shift < -62) & (number != 0)
    _refuse_first(wide | ((number << left) >> left != number), number, "shift_round", "shifted left leaves int64")
    return np.where(shift < 0, number << left, rounded)


def _shift_right(n: np.ndarray, s: np.ndarray, mode: Rounding) -> np.ndarray:
    """n / 2**s rounded, 1 <= s <= 62: add what carries exactly the values that go up, then floor."""
    half = np.int64(1) << (s - 1)
    match mode:
        case "floor":
            return n >> s
        case "ceil":
            return -((-n) >> s)
        case "truncate":
            return (n + ((n >> 63) & ((np.int64(1) << s) - 1))) >> s
        case "half_even":
            return (n + half - 1 + ((n >> s) & 1)) >> s
        case "half_away":
            return (n + half - (n < 0)) >> s
        case "half_up":
            return (n + half) >> s
        case "half_down":
            return (n + half - 1) >> s
        case "half_zero":
            return (n + half - (n >= 0)) >> s


def div_round(n: ArrayLike, d: ArrayLike, mode: Rounding) -> np.ndarray:
    """Round n / d to an integer; arguments broadcast.

    Parameters
    ----------
    n : array_like of integers
        Numerators in int64.
    d : array_like of integers
        Divisors, 1 to 2**62 - 1.
    mode : str
        One of `Rounding`.

    Returns
    -------
    ndarray of int64
        Rounded quotients.

    Raises
    ------
    Refused
        A divisor is out of range, or the mode unknown.
    RefusedType
        Another dtype.
    """
    rounding = require_mode(mode, "div_round")
    number, divisor = np.broadcast_arrays(as_int64(n, "div_round"), as_int64(d, "div_round"))
    _refuse_first((divisor < 1) | (divisor >= 1 << 62), divisor, "div_round", "as divisor is outside [1, 2**62)")
    floor = number // divisor
    rest = number - floor * divisor
    return floor + _goes_up(number, floor, rest, 2 * rest - divisor, rounding)


def _goes_up(n: np.ndarray, q: np.ndarray, r: np.ndarray, t: np.ndarray, mode: Rounding) -> np.ndarray:
    """1 where q + r/d, with t = 2r - d, rounds to q + 1, else 0; bool for some modes."""
    match mode:
        case "floor":
            return np.zeros_like(q)
        case "ceil":
            return r > 0
        case "truncate":
            return (r > 0) & (n < 0)
        case "half_even":
            return np.where(t == 0, q & 1, t > 0)
        case "half_away":
            return np.where(t == 0, n > 0, t > 0)
        case "half_up":
            return t >= 0
        case "half_down":
            return t > 0
        case "half_zero":
            return np.where(t == 0, n < 0, t > 0)


def round_float(x: ArrayLike, mode: Rounding) -> np.ndarray:
    """Round floats to integers of the same dtype; NaN and infinities pass, a zero keeps the sign of x.

    Parameters
    ----------
    x : array_like of floats
        Values.
    mode : str
        One of `Rounding`.

    Returns
    -------
    ndarray of the same dtype
        Integers.

    Raises
    ------
    Refused
        The mode is unknown.
    RefusedType
        Another dtype.
    """
    rounding = require_mode(mode, "round_float")
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise RefusedType(f"round_float: floats are needed, got dtype {array.dtype}")
    whole = {"half_even": np.rint, "floor": np.floor, "ceil": np.ceil, "truncate": np.trunc}
    if rounding in whole:
        return whole[rounding](array)
    cut = np.trunc(array)
    with np.errstate(invalid="ignore"):  # infinity - infinity: NaN, neither a tie nor above one half
        rest = np.abs(array - cut)  # exact; floor(x + 0.5) is not: the addition rounds
    half = array.dtype.type(0.5)
    away = (rest > half) | ((rest == half) & _tie_leaves_zero(array, rounding))
    return cut + np.copysign(away.astype(array.dtype), array)


def _tie_leaves_zero(x: np.ndarray, mode: Rounding) -> np.ndarray:
    """Whether a tie at x rounds to the neighbour of larger magnitude."""
    if mode == "half_up":
        return x > 0
    if mode == "half_down":
        return x < 0
    return np.full_like(x, mode == "half_away", dtype=np.bool_)


def require_mode(mode: Rounding, thing: str) -> Rounding:
    """Check a rounding mode.

    Parameters
    ----------
    mode : str
        Mode.
    thing : str
        Start of the error message.

    Returns
    -------
    str
        The mode.

    Raises
    ------
    Refused
        It is none of `Rounding`.
    """
    return require_choice(mode, get_args(Rounding), thing, "rounding")


def _refuse_first(bad: np.ndarray, values: np.ndarray, thing: str, rule: str) -> None:
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: {int(values[index])}{at(index)} {rule}")
