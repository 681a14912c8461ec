"""OliVe's output stage in exact fractions: each value is rounded from the exact result of the operation before.

[olive §3.4, §4.1]. Real values are (sign, magnitude): a Fraction, or None for infinity.
"""

from fractions import Fraction
from typing import NamedTuple

from tests.oracles.fp16 import round_to
from tests.oracles.olive import ovp

SIZES = {16: (11, -24, 16), 32: (24, -149, 128)}  #: precision, smallest quantum, first power beyond the range
FRACTIONS = {16: 10, 32: 23}
LARGEST = Fraction((1 << 24) - 1) * Fraction(2) ** 104  #: finite float32


class Real(NamedTuple):
    """A floating-point value."""

    negative: bool
    size: Fraction | None  #: None is infinity


class Answer(NamedTuple):
    """Words of every lane, and the pair."""

    acc_f32: tuple[int, ...]
    rescale: tuple[int, ...]
    scaled: tuple[int, ...]
    biased: tuple[int, ...]
    y: tuple[int, ...]
    overflow: tuple[int, ...]
    grid: tuple[int, ...]
    pair: int


def rounded(value: Real, bits: int) -> Real:
    """To the nearest value of a format, ties to even."""
    return value if value.size is None else Real(value.negative, round_to(value.size, *SIZES[bits]))


def read(word: int, bits: int) -> Real:
    """Value of a finite word."""
    fraction, (_, lowest, _) = FRACTIONS[bits], SIZES[bits]
    sign, rest = divmod(word, 1 << bits - 1)
    field, mantissa = divmod(rest, 1 << fraction)
    whole = mantissa + (1 << fraction) if field else mantissa
    return Real(bool(sign), whole * Fraction(2) ** (max(field, 1) - 1 + lowest))


def write(value: Real, bits: int) -> int:
    """Word of a value of the format: the number of values of the format between 0 and it."""
    precision, lowest, _ = SIZES[bits]
    sign = value.negative << bits - 1
    if value.size is None:
        return sign | ((1 << bits - 1 - FRACTIONS[bits]) - 1) << FRACTIONS[bits]
    quanta = value.size / Fraction(2) ** lowest
    assert quanta.denominator == 1
    field = max(quanta.numerator.bit_length() - precision, 0)
    return sign | (field << FRACTIONS[bits]) + (quanta.numerator >> field)


def times(a: Real, b: Real) -> Real:
    """float32 product of finite values."""
    assert a.size is not None
    assert b.size is not None
    return rounded(Real(a.negative != b.negative, a.size * b.size), 32)


def plus(a: Real, b: Real) -> Real:
    """float32 sum, b finite; zeros of both signs, and values that cancel, give +0."""
    if a.size is None:
        return a
    assert b.size is not None
    exact = (-a.size if a.negative else a.size) + (-b.size if b.negative else b.size)
    return rounded(Real(exact < 0 or (exact == 0 and a.negative and b.negative), abs(exact)), 32)


def over(a: Real, b: Real) -> Real:
    """float32 quotient by a positive value, at most the largest finite one."""
    assert b.size is not None
    size = None if a.size is None else rounded(Real(False, a.size / b.size), 32).size
    return Real(a.negative, LARGEST if size is None else size)


def exact_value(value: Real) -> Fraction:
    """The signed value."""
    assert value.size is not None
    return -value.size if value.negative else value.size


def requant(
    fmt: str, acc: tuple[int, int], scale_a: int, scale_w: tuple[int, int], bias: tuple[int, int], scale_next: int
) -> Answer:
    """Both lanes of one event; scales are float32 words, biases fp16 words."""
    sums = [rounded(Real(each < 0, Fraction(abs(each))), 32) for each in acc]
    factors = [times(read(scale_a, 32), read(each, 32)) for each in scale_w]
    scaled = [times(each, factor) for each, factor in zip(sums, factors, strict=True)]
    biased = [plus(each, read(word, 16)) for each, word in zip(scaled, bias, strict=True)]
    halves = [rounded(each, 16) for each in biased]
    grid = [over(each, read(scale_next, 32)) for each in halves]
    left, right = ovp.encode_pair(fmt, *map(exact_value, grid))
    width = ovp.ELEMENTS[ovp.PAIRS[fmt].normal].width
    words = [tuple(write(each, 32) for each in values) for values in (sums, factors, scaled, biased)]
    y = tuple(write(each, 16) for each in halves)
    flags = tuple(int(each.size is None) for each in halves)
    return Answer(*words, y, flags, tuple(write(each, 32) for each in grid), left | right << width)  # type: ignore[arg-type]
