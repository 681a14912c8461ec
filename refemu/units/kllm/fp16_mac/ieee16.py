"""Multiplication and addition of IEEE 754 on fp16 words: five rounding directions, exception flags. [kllm §IV-A]

Every finite fp16 value is an integer times 2**-24, every product one times 2**-48, so results are exact integers until
`rounding` rounds them, once.
"""

from typing import Literal, TypeAlias, get_args

from refemu.arith import rounding
from refemu.units.declaration import decides

__all__ = ["DIRECTIONS", "DZ", "NV", "NX", "OF", "UF", "Direction", "Tininess", "add", "fused", "multiply", "round16"]

#: Modes of `Rounding` that IEEE 754 names, in the order of RISC-V's codes: RNE, RTZ, RDN, RUP, RMM
Direction: TypeAlias = Literal["half_even", "truncate", "floor", "ceil", "half_away"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)  #: the choices of `Direction`, in the order of RISC-V's codes
Tininess: TypeAlias = Literal["after", "before"]  #: whether a result is tiny after its rounding, or before it

NV, DZ, OF, UF, NX = 16, 8, 4, 2, 1  #: flags in RISC-V's order: invalid, division by zero, overflow, underflow, inexact
SIGN, INFINITY, NAN, LARGEST = 0x8000, 0x7C00, 0x7E00, 0x7BFF  #: words
UNIT = 48  #: fraction bits of exact results
LOWEST = -14  #: exponent of the smallest normal value
KEPT = 60  #: bits of an exact result that `shift_round` takes; lower bits become one sticky bit


def multiply(a: int, b: int, direction: Direction, tininess: Tininess = "after") -> tuple[int, int]:
    """Word of a * b, rounded once, and its flags."""
    if is_nan(a) or is_nan(b):
        return NAN, invalid(a, b)
    sign = (a ^ b) & SIGN
    if is_infinite(a) or is_infinite(b):
        return (NAN, NV) if is_zero(a) or is_zero(b) else (sign | INFINITY, 0)
    return round16(scaled(a) * scaled(b), sign, direction, tininess)


def add(a: int, b: int, direction: Direction, tininess: Tininess = "after") -> tuple[int, int]:
    """Word of a + b, rounded once, and its flags."""
    if is_nan(a) or is_nan(b):
        return NAN, invalid(a, b)
    if is_infinite(a) or is_infinite(b):
        return infinite_sum(a, b)
    exact = (scaled(a) + scaled(b)) << (UNIT - 24)
    return round16(exact, zero_sign(a, b, direction), direction, tininess)


def fused(
    a: int, b: int, c: int, direction: Direction, tininess: Tininess = "after", quiet: bool = False
) -> tuple[int, int]:
    """Word of a * b + c, rounded once, and its flags.

    quiet: an infinity times zero raises no NV where a quiet NaN is added (D-arith-25).
    """
    undefined = (is_infinite(a) and is_zero(b)) or (is_zero(a) and is_infinite(b))
    if is_nan(a) or is_nan(b) or is_nan(c) or undefined:
        raised = undefined and not (quiet and is_nan(c))
        return NAN, invalid(a, b, c) | (NV if raised else 0)
    sign = (a ^ b) & SIGN
    if is_infinite(a) or is_infinite(b):
        return infinite_sum(sign | INFINITY, c)
    if is_infinite(c):
        return c, 0
    exact = scaled(a) * scaled(b) + (scaled(c) << (UNIT - 24))
    return round16(exact, zero_sign(sign, c, direction), direction, tininess)


def round16(exact: int, zero: int, direction: Direction, tininess: Tininess = "after") -> tuple[int, int]:
    """Word of exact * 2**-48, and the flags OF, UF, NX; `zero`: word of the result where `exact` is 0."""
    if exact == 0:
        return zero, 0
    exponent = abs(exact).bit_length() - 1 - UNIT
    quantum = max(exponent, LOWEST) - 10
    steps = nearest(exact, quantum + UNIT, direction)
    inexact = steps << (quantum + UNIT) != exact
    sign = SIGN if exact < 0 else 0
    word = abs(steps) + (quantum + 24) * 0x400  # a carry into the next binade is one into the exponent field
    if word >= INFINITY:
        return sign | overflowed(sign, direction), OF | NX
    tiny = is_tiny(exact, exponent, direction, tininess)
    return sign | word, (NX if inexact else 0) | (UF if inexact and tiny else 0)


def overflowed(sign: int, direction: Direction) -> int:
    """Magnitude of a result beyond the range: infinity, or the largest number if the direction is toward 0."""
    toward = {"truncate": True, "floor": sign == 0, "ceil": sign != 0}
    return LARGEST if toward.get(direction, False) else INFINITY


@decides("D-arith-24")
def is_tiny(exact: int, exponent: int, direction: Direction, tininess: Tininess) -> bool:
    """Whether a magnitude is below the smallest normal one.

    "after": after rounding to 11 bits with an unbounded exponent, which can carry it up to the smallest normal one.
    """
    if exponent >= LOWEST:
        return False
    if tininess == "before" or exponent < LOWEST - 1:
        return True
    return abs(nearest(exact, exponent - 10 + UNIT, direction)) < 0x800


def nearest(exact: int, shift: int, direction: Direction) -> int:
    """exact / 2**shift rounded to an integer; a long `exact` enters with a sticky bit, so it cannot look like a tie."""
    more = max(abs(exact).bit_length() - KEPT, 0)
    kept = exact >> more
    if kept << more != exact:
        kept |= 1
    return int(rounding.shift_round(kept, shift - more, direction))


def zero_sign(a: int, b: int, direction: Direction) -> int:
    """Sign of an exact zero sum: that of both terms; if they cancel + except for "floor"."""
    if (a ^ b) & SIGN == 0:
        return a & SIGN
    return SIGN if direction == "floor" else 0


def infinite_sum(a: int, b: int) -> tuple[int, int]:
    """Word and flags of a sum with an infinity."""
    if is_infinite(a) and is_infinite(b) and a != b:
        return NAN, NV
    return (a if is_infinite(a) else b), 0


def invalid(*words: int) -> int:
    """NV where a signalling NaN is among `words`."""
    return NV if any(is_nan(word) and not word & 0x200 for word in words) else 0


def scaled(word: int) -> int:
    """A finite value times 2**24: an integer."""
    field = word >> 10 & 31
    magnitude = (word & 0x3FF | 0x400) << (field - 1) if field else word & 0x3FF
    return -magnitude if word & SIGN else magnitude


def is_nan(word: int) -> bool:
    """Whether a word is a NaN."""
    return word & 0x7FFF > INFINITY


def is_infinite(word: int) -> bool:
    """Whether a word is an infinity."""
    return word & 0x7FFF == INFINITY


def is_zero(word: int) -> bool:
    """Whether a word is +0 or -0."""
    return word & 0x7FFF == 0
