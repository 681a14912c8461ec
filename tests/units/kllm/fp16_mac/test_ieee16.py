"""IEEE 754 on fp16 words against exact fractions, and facts of the standard by hand."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith import fp16 as arrays
from refemu.units.kllm.fp16_mac import ieee16
from refemu.units.kllm.fp16_mac.ieee16 import DIRECTIONS, NV, NX, OF, UF
from tests.oracles import fp16, ieee

WORD = st.integers(0, 0xFFFF)
DIRECTION = st.sampled_from(DIRECTIONS)
TININESS = st.sampled_from(["after", "before"])
MAX, MIN = 0x7BFF, 0x0400  #: the largest and the smallest normal number


@settings(max_examples=400, deadline=None)
@given(a=WORD, b=WORD, c=WORD, direction=DIRECTION, tininess=TININESS)
@example(a=0x37FE, b=0x0801, c=0, direction="half_even", tininess="after")  # (1 - 2**-20) * 2**-14
@example(a=0x7C00, b=0, c=0x7E00, direction="floor", tininess="after")
def test_operations_are_the_oracles(a: int, b: int, c: int, direction: str, tininess: str) -> None:
    assert ieee16.multiply(a, b, direction, tininess) == ieee.mul(a, b, direction, tininess)  # type: ignore[arg-type]
    assert ieee16.add(a, c, direction, tininess) == ieee.add(a, c, direction, tininess)  # type: ignore[arg-type]
    for quiet in (False, True):
        assert ieee16.fused(a, b, c, direction, tininess, quiet) == ieee.fma(a, b, c, direction, tininess, quiet)  # type: ignore[arg-type]


@settings(max_examples=400, deadline=None)
@given(a=WORD, b=WORD, c=WORD)
def test_to_nearest_even_it_is_arithmetic_of_package(a: int, b: int, c: int) -> None:
    values = [arrays.values(word) for word in (a, b, c)]
    for got, want in (
        (ieee16.multiply(a, b, "half_even"), arrays.mul16(*values[:2])),
        (ieee16.add(a, b, "half_even"), arrays.add16(*values[:2])),
        (ieee16.fused(a, b, c, "half_even"), arrays.fma16(*values)),
    ):
        assert got[0] == int(arrays.bits(arrays.to_f16(want)))


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_overflow_by_direction(sign: int) -> None:
    """65504 + 16 is a tie with 65536; infinity to nearest and away from zero, else back to 65504."""
    away = "floor" if sign else "ceil"
    for direction in DIRECTIONS:
        y, flags = ieee16.add(MAX | sign, 0x4C00 | sign, direction)
        goes = direction in ("half_even", "half_away", away)
        assert (y, flags) == ((0x7C00 | sign, OF | NX) if goes else (MAX | sign, NX))
        y, flags = ieee16.multiply(MAX, MAX | sign, direction)
        assert (y, flags) == ((0x7C00 | sign) if goes else MAX | sign, OF | NX)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_cancelling_sum_is_minus_zero_only_for_floor(direction: str) -> None:
    minus = 0x8000 if direction == "floor" else 0
    assert ieee16.add(0x3C00, 0xBC00, direction) == (minus, 0)  # type: ignore[arg-type]
    assert ieee16.fused(0x3C00, 0x3C00, 0xBC00, direction) == (minus, 0)  # type: ignore[arg-type]
    assert ieee16.add(0, 0x8000, direction) == (minus, 0)  # type: ignore[arg-type]
    assert ieee16.add(0x8000, 0x8000, direction) == (0x8000, 0)  # type: ignore[arg-type]
    assert ieee16.multiply(0, 0x8000, direction) == (0x8000, 0)  # type: ignore[arg-type]


def test_tininess_after_and_before_a_rounding() -> None:
    """D-arith-24: 2**-14 - 2**-27 becomes 2**-14, with 11 bits too. 2**-14 - 2**-25 needs 11 bits and stays tiny."""
    for tininess, raised in (("after", NX), ("before", UF | NX)):
        assert ieee16.fused(0x8001, 0x3000, MIN, "half_even", tininess) == (MIN, raised)  # type: ignore[arg-type]
        assert ieee16.fused(0x8001, 0x3800, MIN, "half_even", tininess) == (MIN, UF | NX)  # type: ignore[arg-type]
        assert ieee16.multiply(0x0400, 0x3800, "half_even", tininess) == (0x0200, 0)  # type: ignore[arg-type]


def test_ties_by_direction() -> None:
    """1 + 2**-11 and 1 + 3 * 2**-11, and their negatives."""
    up = {"half_even": (0, 1), "truncate": (0, 0), "floor": (0, 0), "ceil": (1, 1), "half_away": (1, 1)}
    down = up | {"floor": (1, 1), "ceil": (0, 0)}
    for sign, steps in ((0, up), (0x8000, down)):
        for direction in DIRECTIONS:
            got = [ieee16.add(0x3C00 + i | sign, 0x1000 | sign, direction) for i in (0, 1)]
            assert got == [(0x3C00 + i + steps[direction][i] | sign, NX) for i in (0, 1)]


def test_not_numbers() -> None:
    """D-arith-1, D-arith-25."""
    assert ieee16.multiply(0x7D01, 0x3C00, "floor") == (0x7E00, NV)
    assert ieee16.multiply(0xFE55, 0x3C00, "floor") == (0x7E00, 0)
    assert ieee16.multiply(0x7C00, 0, "floor") == (0x7E00, NV)
    assert ieee16.add(0x7C00, 0xFC00, "floor") == (0x7E00, NV)
    assert ieee16.fused(0x7C00, 0, 0xFE55, "floor") == (0x7E00, NV)
    assert ieee16.fused(0x7C00, 0, 0xFE55, "floor", quiet=True) == (0x7E00, 0)
    assert ieee16.fused(0x7C00, 0, 0x7D01, "floor", quiet=True) == (0x7E00, NV)
    assert ieee16.fused(0x7C00, 0, 0x3C00, "floor", quiet=True) == (0x7E00, NV)


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_products_of_every_word(direction: str) -> None:
    """With 67 factors that cover exponents and ends."""
    factors = [*range(0x0001, 0x7C00, 0x1F7), 0x37FE, 0x3BFF, 0x0801]
    for a in range(0x7C00):
        for b in factors[a % 7 :: 7]:
            assert ieee16.multiply(a | 0x8000, b, direction) == ieee.mul(a | 0x8000, b, direction)  # type: ignore[arg-type]


def test_word_is_integer_times_2_to_minus_24() -> None:
    for word in (*range(0, 0x7C00, 7), *range(0x8000, 0xFC00, 11)):
        assert math.ldexp(ieee16.scaled(word), -24) == fp16.to_float(word)
