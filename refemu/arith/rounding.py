"""Rounding of integers, exact ratios and exact floats to an integer, in eight modes."""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice
from refemu.arith.integers import as_int64


class Rounding(StrEnum):
    """Which integer stands for a value between two: the first three by direction, the others nearest, by tie rule."""

    FLOOR = "floor"  #: toward -infinity: two's complement truncation
    CEIL = "ceil"  #: toward +infinity
    TRUNCATE = "truncate"  #: toward 0: sign-magnitude truncation
    HALF_EVEN = "half_even"  #: ties to the even neighbour: IEEE 754
    HALF_AWAY = "half_away"  #: ties away from 0: C's `round`
    HALF_UP = "half_up"  #: ties toward +infinity
    HALF_DOWN = "half_down"  #: ties toward -infinity: argmin over an ascending table
    HALF_ZERO = "half_zero"  #: ties toward 0


def shift_round(n: ArrayLike, s: ArrayLike, mode: Rounding | str) -> np.ndarray:
    """n / 2**s rounded to an integer as `mode` says; arguments broadcast. Returns int64.

    n: integers, |n| < 2**61. s: integers; 0 returns n, a negative one shifts left exactly.
    Refused: |n| from 2**61 on, a left shift that leaves int64, an unknown mode.
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
        case Rounding.FLOOR:
            return n >> s
        case Rounding.CEIL:
            return -((-n) >> s)
        case Rounding.TRUNCATE:
            return (n + ((n >> 63) & ((np.int64(1) << s) - 1))) >> s
        case Rounding.HALF_EVEN:
            return (n + half - 1 + ((n >> s) & 1)) >> s
        case Rounding.HALF_AWAY:
            return (n + half - (n < 0)) >> s
        case Rounding.HALF_UP:
            return (n + half) >> s
        case Rounding.HALF_DOWN:
            return (n + half - 1) >> s
        case Rounding.HALF_ZERO:
            return (n + half - (n >= 0)) >> s


def div_round(n: ArrayLike, d: ArrayLike, mode: Rounding | str) -> np.ndarray:
    """n / d rounded to an integer as `mode` says; arguments broadcast. Returns int64.

    n: integers in int64. d: integers in [1, 2**62); refused otherwise.
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
        case Rounding.FLOOR:
            return np.zeros_like(q)
        case Rounding.CEIL:
            return r > 0
        case Rounding.TRUNCATE:
            return (r > 0) & (n < 0)
        case Rounding.HALF_EVEN:
            return np.where(t == 0, q & 1, t > 0)
        case Rounding.HALF_AWAY:
            return np.where(t == 0, n > 0, t > 0)
        case Rounding.HALF_UP:
            return t >= 0
        case Rounding.HALF_DOWN:
            return t > 0
        case Rounding.HALF_ZERO:
            return np.where(t == 0, n < 0, t > 0)


def round_float(x: ArrayLike, mode: Rounding | str) -> np.ndarray:
    """Floats of any shape rounded to integers as `mode` says, in the same float dtype; exact, as the input is.

    NaN and infinities pass; a zero result keeps the sign of x. Raises RefusedType for a dtype that is not float.
    """
    rounding = require_mode(mode, "round_float")
    array = np.asarray(x)
    if array.dtype.kind != "f":
        raise RefusedType(f"round_float: floats are needed, got dtype {array.dtype}")
    whole = {Rounding.HALF_EVEN: np.rint, Rounding.FLOOR: np.floor, Rounding.CEIL: np.ceil, Rounding.TRUNCATE: np.trunc}
    if rounding in whole:
        return whole[rounding](array)
    cut = np.trunc(array)
    with np.errstate(invalid="ignore"):  # infinity - infinity: NaN, which is no tie and not above one half
        rest = np.abs(array - cut)  # exact; floor(x + 0.5) is not: the addition rounds
    half = array.dtype.type(0.5)
    away = (rest > half) | ((rest == half) & _tie_leaves_zero(array, rounding))
    return cut + np.copysign(away.astype(array.dtype), array)


def _tie_leaves_zero(x: np.ndarray, mode: Rounding) -> np.ndarray:
    """Where a tie at x rounds to the neighbour of larger magnitude."""
    if mode is Rounding.HALF_UP:
        return x > 0
    if mode is Rounding.HALF_DOWN:
        return x < 0
    return np.full_like(x, mode is Rounding.HALF_AWAY, dtype=np.bool_)


def require_mode(mode: Rounding | str, thing: str) -> Rounding:
    """`mode` as a Rounding; refused with the list of modes if it is none."""
    return Rounding(require_choice(str(mode), [str(known) for known in Rounding], thing, "rounding"))


def _refuse_first(bad: np.ndarray, values: np.ndarray, thing: str, rule: str) -> None:
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: {int(values[index])}{at(index)} {rule}")
