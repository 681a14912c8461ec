"""float32 on Python floats is what NumPy's float32 is, for every operation and at every end."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.scalar32 import div32, f32, odd_sum, pattern16, pattern32, value16, value32

singles = st.floats(width=32, allow_nan=False)


@settings(deadline=None, max_examples=300)
@given(a=singles, b=singles)
@example(a=3.4028234663852886e38, b=1e31)
@example(a=1.0, b=0.0)
@example(a=-1.0, b=0.0)
@example(a=0.0, b=-0.0)
def test_one_operation_rounded_is_the_float32_operation(a: float, b: float) -> None:
    with np.errstate(all="ignore"):
        x, y = np.float32(a), np.float32(b)
        wanted = [x + y, x - y, x * y, x / y]
    got = [f32(a + b), f32(a - b), f32(a * b), div32(a, b)]

    assert [pattern32(float(v)) for v in wanted] == [pattern32(v) for v in got]


@given(pattern=st.integers(0, (1 << 32) - 1))
def test_patterns_of_32_bits_come_back(pattern: int) -> None:
    nan = pattern & 0x7FFFFFFF > 0x7F800000

    assert pattern32(value32(pattern)) == (0x7FC00000 if nan else pattern)


def test_every_fp16_pattern_comes_back() -> None:
    words = [word for word in range(1 << 16) if word & 0x7FFF <= 0x7C00]

    assert [pattern16(value16(word)) for word in words] == words
    assert pattern16(math.nan) == 0x7E00


@given(x=st.floats(allow_nan=False))
@example(x=65519.99609375)
@example(x=1 + 2.0**-11 + 2.0**-50)
@example(x=65520.0)
@example(x=-65520.0)
@example(x=2.0**-25)
def test_fp16_pattern_is_numpys_cast(x: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        assert pattern16(x) == int(np.float64(x).astype(np.float16).view(np.uint16))


@given(a=st.floats(-1e9, 1e9), b=st.floats(-1e9, 1e9))
@example(a=1.0, b=2.0**-60)
@example(a=1.0, b=-(2.0**-60))
@example(a=0.0, b=-0.0)
def test_odd_rounded_sum_is_on_exact_side(a: float, b: float) -> None:
    exact, total = Fraction(a) + Fraction(b), odd_sum(a, b)
    odd = int(np.float64(total).view(np.uint64)) & 1
    neighbours = Fraction(math.nextafter(total, -math.inf)), Fraction(math.nextafter(total, math.inf))

    assert total == exact or (odd and neighbours[0] < exact < neighbours[1])
    assert pattern16(odd_sum(math.inf, -math.inf)) == 0x7E00


@pytest.mark.parametrize(("x", "rounded"), [(1e39, math.inf), (-1e39, -math.inf), (1 + 2.0**-24, 1.0), (5e-46, 0.0)])
def test_ends_of_float32(x: float, rounded: float) -> None:
    assert f32(x) == rounded
