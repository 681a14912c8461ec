"""Conditions have the values of Python, and limits keep every condition fast."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.cli.condition import BITS, LONGEST, parse


@dataclass(frozen=True)
class State:
    """State of a unit with two ports and a register with lanes."""

    event: str = "load"
    index: int = 3
    x: int = 0xFFFFFFFFFFFFFFFF
    lanes: tuple[int, ...] = (1, -2, 3)
    trees: bytes = b"\x05"


numbers = st.sampled_from(
    ["index", "x", "lanes[0]", "lanes[-1]", "lanes[index - 1]", "trees[0]", "7", "0x10", "-3", "0.5", "True"]
)
sums = st.recursive(
    numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner)
        | st.builds("-{}".format, inner)
    ),
    max_leaves=6,
)
conditions = st.recursive(
    st.builds("{} {} {}".format, sums, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), sums)
    | st.builds("{} < {} <= {}".format, sums, sums, sums)
    | sums
    | st.just("event == 'load'"),
    lambda inner: (
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=5,
)


@given(text=conditions)
def test_condition_has_the_value_of_python(text: str) -> None:
    """Where Python raises, the condition is rejected: bitwise operators take no fractions."""
    state, names = State(), vars(State())
    try:
        expected: Any = bool(eval(text, {"__builtins__": {}}, dict(names)))
    except TypeError:
        with pytest.raises(Refused, match="fails at event 3"):
            parse(text).holds(state)
    else:
        assert parse(text).holds(state) is expected


@pytest.mark.parametrize(
    "text",
    [
        "1 << (1 << 40)",
        "(1 << 200000000) * (1 << 200000000) == 1",
        "1 << (1 << 33)",
        f"1 << {BITS}",
        f"(1 << {BITS // 2}) * (1 << {BITS // 2})",
        "9" * 2000 + " + 1 > 0",
    ],
)
def test_condition_limits_bits_of_values(text: str) -> None:
    with pytest.raises(Refused, match=f"a value would have more than {BITS} bits"):
        parse(text).holds(State())


@pytest.mark.parametrize("text", [f"1 << {BITS - 1} > 0", "1 >> (1 << 40) == 0", "x * x > x", "0 << 4096 == 0"])
def test_condition_computes_values_within_the_limit(text: str) -> None:
    assert parse(text).holds(State())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event * 1000000000 == event", "a number is needed, got str"),
        ("lanes + lanes == 1", "a number is needed, got tuple"),
        ("1j + 1 == 0", "a number is needed, got complex"),
        ("1 << -1", "negative shift count"),
        ("lanes[9]", "tuple index out of range"),
        ("1" + "+1" * 2000, "maximum recursion depth|nested too deep"),
        ("-" * 3000 + "1", "nested too deep|recursion depth"),
        ("index ** 9", "may compare ports, registers and counters, got Pow"),
        ("index if x else 1", "got IfExp"),
        ("index\0", "null byte"),
        ("x" * (LONGEST + 1), f"takes at most {LONGEST} characters, got {LONGEST + 1}"),
        ("indx == 1", "did you mean 'index'"),
    ],
)
def test_invalid_condition_is_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        parse(text).holds(State())
