"""Bounds hold every value that the text can give."""

import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.compiled.bounds import Bounds
from refemu.units.compiled.ranges import Range, Real, Vector, of_constant

NAMES = st.sampled_from(["a", "b", "1", "0", "7", "-3"])
SHIFTS = st.sampled_from(["1", "3", "(a & 7)", "(b & 3)"])


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions of expressions."""
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "&", "|", "^"]), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["<<", ">>"]), SHIFTS),
        st.builds("({} {} {})".format, inner, st.sampled_from(["//", "%"]), st.sampled_from(["1", "5", "(a & 7) + 1"])),
        st.builds("({} if {} {} {} else {})".format, inner, inner, st.sampled_from(["<", "==", ">="]), inner, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("abs({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("~{}".format, inner),
        st.builds("(not {})".format, inner),
    )


EXPRESSIONS = st.recursive(NAMES, compound, max_leaves=12)
LIMITS = st.tuples(st.integers(-200, 200), st.integers(0, 300)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def bounds_of(text: str, **names: Any) -> Any:
    """Bounds of an expression."""
    return Bounds("unit", {}, names).value(ast.parse(text, mode="eval").body, {})


@given(EXPRESSIONS, LIMITS, LIMITS, st.data())
def test_value_is_within_its_bounds(text: str, a: Any, b: Any, data: st.DataObject) -> None:
    try:
        low, high = bounds_of(text, a=Range(*a), b=Range(*b))
    except Refused:
        return
    for _ in range(5):
        value = eval(text, {}, {"a": data.draw(st.integers(*a)), "b": data.draw(st.integers(*b))})
        assert low <= int(value) <= high


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("a * b", (-80, 160)),
        ("a - b", (-28, 26)),
        ("a << 3", (-40, 80)),
        ("a & 7", (0, 7)),
        ("b % 5", (0, 4)),
        ("3 if 1 == 1 else a", (3, 3)),
        ("max(a, 2)", (2, 10)),
        ("sum(v)", (-16, 60)),
        ("v[a & 3]", (-4, 15)),
        ("t[1]", (9, 9)),
    ],
)
def test_bounds_are_tight(text: str, bounds: tuple[int, int]) -> None:
    names = {"a": Range(-5, 10), "b": Range(-16, 23) if "-" in text else Range(0, 16)}
    names |= {"v": Vector(Range(-4, 15), 4), "t": of_constant((4, 9))}

    assert bounds_of(text, **names) == bounds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a << 60", r"a << 60 may leave 64 bits: 0 to 29[0-9]{19}"),
        ("1 << a", "1 << a may be a shift by 255"),
        ("0 << 64", "0 << 64 may be a shift by 64"),
        ("a % b", "a % b may be a divisor of 0"),
        ("v[b + 2]", r"v\[b \+ 2\] may be an index of 2 to 5 of 4"),
        ("a * a * a * a * a * a * a * a", "may leave 64 bits"),
    ],
)
def test_value_beyond_64_bits_is_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        bounds_of(text, a=Range(0, 255), b=Range(0, 3), v=Vector(Range(0, 1), 4))


def after(text: str, name: str, **names: Any) -> Any:
    """Bounds of a name after some statements."""
    local: dict[str, Any] = {}
    assert Bounds("unit", {}, names)._block(ast.parse(text).body, local, [])
    return local[name]


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("x = 5\nfor i in range(a):\n    x = 0", (0, 5)),
        ("x = 5\nfor i in range(3):\n    x = 0", (0, 0)),
        ("x = 0\nfor i in range(a):\n    x += b", (-9, 12)),
        ("x = 0\nfor i in range(a, 4):\n    x += 1", (1, 4)),
        ("x = 0\nfor i in range(2, a):\n    x = i", (0, 2)),
        ("x = len(range(a))", (0, 3)),
        ("x = sum([b for i in range(a)])", (-9, 12)),
        ("x = (range(a) if b else range(2, 5)).stop", (0, 5)),
        ("x = 1 if range(a) else 0", (0, 1)),
        ("x = 1 if range(2) else 0", (1, 1)),
        ("x = 1\nif b:\n    raise Wrong\nelse:\n    x = 2", (2, 2)),
    ],
)
def test_loops_and_ranges_that_may_be_shorter(text: str, bounds: tuple[int, int]) -> None:
    assert after(text, "x", a=Range(0, 3), b=Range(-3, 4)) == bounds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [1 for i in range(a)][1]", "an index of 1 to 1 of 0"),
        ("write_y([1 for i in range(a)])", "must have 3 lanes, got 3"),
        ("x = sum([i for i, j in zip(range(a), v)])", "of an unknown length"),
        ("for i in range(0, 6, 2):\n    pass", "a range of other steps than 1"),
    ],
)
def test_lists_of_unknown_length_are_rejected(text: str, message: str) -> None:
    names = {"a": Range(0, 3), "v": Vector(Range(0, 1), 3)}
    with pytest.raises(Refused, match=message):
        Bounds("unit", {}, names, {"write_y": 3})._block(ast.parse(text).body, {}, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v = f_empty(3)\nv[0] = r", "r must be an integer, or its function say float"),
        ("v = f_empty_reals(3)\nv[0] = a", "a must be an integer, or its function say float"),
        ("x = a if b else r", "an integer or a real number"),
        ("x = max(a, r)", "an integer or a real number"),
        ("x = f_whole(r)", "an integer of any real number"),
        ("x = f_shown(r)", "a real number in a port"),
        ("x = r % r", "has no bounds"),
        ("x = ~r", "of a real number"),
        ("x = r < (1 << 60)", "an integer that no real number is"),
        ("x = f_value16(1 << 16)", "a word of more than 16 bits"),
        ("write_y([r, r, r])", "must be integers, got a real number"),
    ],
)
def test_real_number_is_rejected_as_integer(text: str, message: str) -> None:
    names = {"a": Range(0, 3), "b": Range(0, 1), "r": Real(-math.inf, math.inf)}
    with pytest.raises(Refused, match=message):
        Bounds("unit", {}, names, {"write_y": 3})._block(ast.parse(text).body, {}, [])


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("x = 2 * r - 1", (-7.0, 9.0)),
        ("x = abs(r)", (0.0, 5.0)),
        ("x = min(r, 2.5)", (-3.0, 2.5)),
        ("x = f_whole(0.5 * r)", (-1, 2)),
        ("x = f_ldexp(r, 3)", (-24.0, 40.0)),
        ("x = f_copysign(r, -1.0)", (-5.0, 5.0)),
        ("x = 1 if r else 2", (1, 2)),
    ],
)
def test_bounds_of_real_numbers(text: str, bounds: tuple[float, float]) -> None:
    assert after(text, "x", r=Real(-3.0, 5.0)) == bounds
