"""The exact accumulator: nothing is rounded before the end. It bounds every other accumulator.

Products of fp16 values are multiples of 2**-48, so a sum is an integer number of them.
"""

from collections.abc import Callable

import numpy as np

from refemu.arith import fp16, integers
from refemu.arith.operands import Precision
from refemu.arith.orders import Sequential
from refemu.arith.sums import reduce

UNIT = -48  #: exponent of the unit of a sum


def steps(x: np.ndarray | np.float32) -> np.ndarray:
    """Finite fp16 values as int64 multiples of 2**-24; others count as 0."""
    return integers.from_float(np.ldexp(np.where(np.isfinite(x), x, np.float32(0)).astype(np.float64), 24))


def sum_products(a: list[np.ndarray], b: list[np.ndarray], start: np.float32, out: Precision) -> np.ndarray:
    """Sum over k of a[k] * b[k] (fp16-valued float32, arrays that broadcast), plus `start`, rounded once to `out`.

    An infinite or NaN product decides the result as IEEE addition has it, whatever the order.
    """
    total = int(steps(start)) << 24
    for x, y in zip(a, b, strict=True):
        total = total + steps(x).astype(object) * steps(y).astype(object)
    return finish(np.asarray(total, object), special(a, b, start), out, round_integers)


def special(a: list[np.ndarray], b: list[np.ndarray], start: np.float32) -> np.ndarray:
    """The sum of what is not finite: 0, an infinity or NaN."""
    with np.errstate(all="ignore"):
        products = [np.where(np.isfinite(x * y), np.float32(0), x * y) for x, y in zip(a, b, strict=True)]
        first = np.float32(0) if np.isfinite(start) else start
        return np.asarray(reduce(Sequential(), products, first, np.add))


def finish(
    total: np.ndarray, extremes: np.ndarray, out: Precision, rounder: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """`total` by `rounder`, float64 that one more rounding brings to `out`; `extremes` where they are not 0."""
    value = np.where(extremes == 0, rounder(total), extremes.astype(np.float64))
    if out == "fp16":
        return fp16.canonical(fp16.round16_of_f64(value))
    with np.errstate(over="ignore"):
        return fp16.canonical(value.astype(np.float32))


def round_integers(total: np.ndarray) -> np.ndarray:
    """Python integers times 2**-48 as float64 rounded to odd."""
    flat = [to_odd(int(n)) for n in total.ravel()]
    return np.array(flat, np.float64).reshape(total.shape)


def to_odd(n: int, exponent: int = UNIT) -> float:
    """53 bits of n * 2**exponent whose last one is 1 if anything was dropped: rounding again is rounding once."""
    magnitude = abs(n)
    dropped = max(magnitude.bit_length() - 53, 0)
    kept = magnitude >> dropped
    kept |= int(kept << dropped != magnitude)
    return float(np.ldexp(float(kept if n >= 0 else -kept), dropped + exponent))


def round_limbs(limbs: np.ndarray) -> np.ndarray:
    """int64 limbs (3, ...) of 32 bits, lowest first, the highest signed, times 2**-48 as float64 rounded to odd.

    From the top, limbs are appended while they fit; from 30 bits on a nonzero limb only sets the last bit.
    """
    number, exponent = limbs[2], np.full(limbs.shape[1:], UNIT + 64)
    for limb in (limbs[1], limbs[0]):
        room = np.abs(number) < 1 << 30
        number = np.where(room, (number << 32) + limb, number | (limb != 0))
        exponent = np.where(room, exponent - 32, exponent)
    wide = np.abs(number) >= 1 << 52
    number = np.where(wide, (number >> 11) | ((number & 2047) != 0), number)
    return np.ldexp(number.astype(np.float64), np.where(wide, exponent + 11, exponent))
