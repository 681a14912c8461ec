"""Compiled functions of lifted texts give what those of Python give."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import scalar32
from refemu.units.compiled import ranges
from refemu.units.compiled.scalars import COMPILED, GivenUp, all_of, any_of, bit_length, count, whole

REALS = st.floats(allow_nan=True, width=32) | st.floats(-70000, 70000) | st.floats()
WORDS = {scalar32.value16: 16, scalar32.value32: 32}
NEAR = st.floats(-(2.0**40), 2.0**40)
ARGUMENTS: dict[Any, Any] = {
    divmod: st.tuples(st.integers(-(1 << 40), 1 << 40), st.integers(1, 1 << 20)),
    math.ldexp: st.tuples(NEAR, st.integers(-30, 30)),
    scalar32.odd_sum: st.tuples(NEAR, NEAR),
}


def bits(value: Any) -> Any:
    """A value without the difference of NaNs; also the sign of zero."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return struct.pack("<d", math.nan if value != value else value)


@given(st.data())
@pytest.mark.parametrize("function", list(COMPILED), ids=lambda function: str(function.__name__))
def test_a_function_and_its_bounds(function: Any, data: st.DataObject) -> None:
    if function in WORDS:
        arguments: Any = (data.draw(st.integers(0, (1 << WORDS[function]) - 1)),)
    else:
        two = st.tuples(REALS, REALS) if function in (math.copysign, scalar32.div32) else st.tuples(REALS)
        arguments = data.draw(ARGUMENTS.get(function, two))
    value = function(*arguments)
    assert bits(COMPILED[function](*arguments)) == bits(value)
    parts = ranges.COMPILED[function](*map(ranges.of_constant, arguments))
    for part, limits in zip(value, parts, strict=True) if isinstance(value, tuple) else [(value, parts)]:
        assert (
            limits.low <= part <= limits.high or (part != part and limits == ranges.ANY) or arguments[0] != arguments[0]
        )


@given(st.integers(-(1 << 61), 1 << 61), st.lists(st.integers(0, 3), min_size=1).map(tuple))
def test_integers_and_lists(value: int, values: tuple[int, ...]) -> None:
    assert (bit_length(value), whole(value), whole(-2.75)) == (value.bit_length(), value, -2)
    assert (all_of(values), any_of(values), count(values, 2)) == (all(values), any(values), values.count(2))


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e19])
def test_a_number_without_an_integer_is_given_up(value: float) -> None:
    with pytest.raises(GivenUp):
        whole(value)
