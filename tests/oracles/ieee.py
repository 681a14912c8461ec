"""fp16 multiplication and addition with IEEE 754's directions and flags: exact fractions looked up between neighbours.

The 31,744 finite magnitudes are in a list; a result is between two of them. Flags: NV 16, OF 4, UF 2, NX 1.
"""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache

from tests.oracles.fp16 import INF, NAN, SIGN, to_float

DIRECTIONS = ("half_even", "truncate", "floor", "ceil", "half_away")
NV, OF, UF, NX = 16, 4, 2, 1
NORMAL = Fraction(1, 2**14)


@cache
def magnitudes() -> list[float]:
    """Every finite magnitude by its word, and 2**16 as the next one."""
    return [to_float(word) for word in range(INF)] + [65536.0]


def outward(x: Fraction, low: Fraction, high: Fraction, odd: bool, direction: str) -> bool:
    """Whether x, between the magnitudes `low` and `high` of its sign, goes to `high`; odd: the last bit of `low`."""
    if abs(x) == low:
        return False
    if direction in ("truncate", "floor", "ceil"):
        return direction == ("floor" if x < 0 else "ceil")
    below, above = abs(x) - low, high - abs(x)
    return above < below or (above == below and (odd or direction == "half_away"))


def magnitude(x: Fraction, direction: str) -> tuple[int, bool]:
    """Word of |x| rounded by the direction of x, 0x7C00 for 2**16 or more; and whether bits were lost."""
    every = magnitudes()
    if abs(x) >= 65536:
        return INF, True
    low = bisect_right(every, abs(x)) - 1
    up = outward(x, Fraction(every[low]), Fraction(every[low + 1]), low % 2 == 1, direction)
    return low + up, Fraction(every[low]) != abs(x)


def rounded(x: Fraction, zero: int, direction: str, tininess: str) -> tuple[int, int]:
    """Word and flags of an exact value; an exact zero is the word `zero`."""
    if x == 0:
        return zero, 0
    word, inexact = magnitude(x, direction)
    sign = SIGN if x < 0 else 0
    if word == INF:
        inward = {"truncate": True, "floor": x > 0, "ceil": x < 0}.get(direction, False)
        return sign | (INF - inward), OF | NX
    tiny = abs(x) < NORMAL
    if tininess == "after" and tiny:  # 2**20 times as large, it has all bits of a normal number
        grown, _ = magnitude(x * 2**20, direction) if abs(x) * 2**6 >= NORMAL else (0, False)
        tiny = magnitudes()[grown] < NORMAL * 2**20
    return sign | word, (NX if inexact else 0) | (UF if tiny and inexact else 0)


def zero_sum(first: int, second: int, direction: str) -> int:
    """Sign bit of an exact zero: both terms' own, else + but towards minus infinity."""
    if first == second:
        return first
    return SIGN if direction == "floor" else 0


def signals(*words: int) -> int:
    """NV if a signalling NaN is among the words."""
    return NV if any(math.isnan(to_float(u)) and u // 0x200 % 2 == 0 for u in words) else 0


def mul(u: int, v: int, direction: str, tininess: str = "after") -> tuple[int, int]:
    """u * v and its flags."""
    a, b = to_float(u), to_float(v)
    if math.isnan(a) or math.isnan(b):
        return NAN, signals(u, v)
    if math.isnan(a * b):
        return NAN, NV
    sign = (u & SIGN) ^ (v & SIGN)
    if math.isinf(a) or math.isinf(b):
        return sign | INF, 0
    return rounded(Fraction(a) * Fraction(b), sign, direction, tininess)


def add(u: int, v: int, direction: str, tininess: str = "after") -> tuple[int, int]:
    """u + v and its flags."""
    return fma(u, 0x3C00, v, direction, tininess)


def fma(u: int, v: int, w: int, direction: str, tininess: str = "after", quiet: bool = False) -> tuple[int, int]:
    """u * v + w, rounded once, and its flags. quiet: infinity * 0 + NaN raises nothing by itself."""
    a, b, c = to_float(u), to_float(v), to_float(w)
    product = a * b  # infinite or NaN only where an operand is
    if any(map(math.isnan, (a, b, c, product + c))):
        undefined = math.isnan(product) and not math.isnan(a) and not math.isnan(b)
        clash = not any(map(math.isnan, (product, c)))
        raised = clash or (undefined and not (quiet and math.isnan(c)))
        return NAN, signals(u, v, w) | (NV if raised else 0)
    if math.isinf(product):
        return (SIGN if product < 0 else 0) | INF, 0
    if math.isinf(c):
        return w, 0
    sign = (u & SIGN) ^ (v & SIGN)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(exact, zero_sum(sign, (w & SIGN), direction), direction, tininess)


def separate(u: int, v: int, w: int, direction: str, tininess: str = "after") -> tuple[int, int]:
    """r(r(u * v) + w), with the flags of both roundings."""
    product, first = mul(u, v, direction, tininess)
    y, second = add(product, w, direction, tininess)
    return y, first | second
