"""Texts of events as numba takes them."""

import ast
import linecache
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.units.compiled.lifter import Lifted, constant, number
from refemu.units.declaration import Changes
from tests.units.compiled.toy import Toy, split


def text_of(name: str) -> str:
    """A lifted event of the toy."""
    device = Toy()
    lifted = Lifted(device, device.ports.outputs + device.ports.state)
    return ast.unparse(lifted.functions[lifted.method(name, event=name)])


def test_constants_are_numbers_short_tuples_and_arrays() -> None:
    kinds: dict[Any, Any] = {"wrap": number("wrap"), True: 1, 1.5: 1.5, (1, 2): (1, 2)}
    assert {value: constant(value) for value in kinds} == kinds
    table = constant(((1, 2), (3, 4)))
    assert isinstance(table, np.ndarray) and table.dtype == np.int64 and table.tolist() == [[1, 2], [3, 4]]
    assert [constant(value) for value in (None, float("inf"), ("a",), ())] == [None] * 4


def test_event_returns_its_number_scalars_and_counters() -> None:
    text = text_of("clear")

    changed = "f_shown(_new_total), f_shown(_new_any_odd), s_parts, s_grade, s_rank, f_shown(_new_left)"
    assert f"return ({number('clear')}, {changed}, 0, 0)" in text
    assert "write_halves(_new_halves)" in text and "write_kept(s_kept)" in text


def test_words_and_parameters_are_numbers_and_names() -> None:
    assert f"if c_rule == {number('saturate')}" in text_of("_kept")
    assert "lane__kept(_c, _s, _p, before + factor * s_kept[place])" in text_of("lane")


def test_comprehensions_become_loops_before_their_statement() -> None:
    lines = text_of("load").splitlines()

    assert any(line.startswith("    _sum_") for line in lines) and not any("sum(" in line for line in lines)
    assert any("_any_" in line and "|= bool(" in line for line in lines)


def test_lists_of_tuples_are_list_for_each_part() -> None:
    text = text_of("load")

    assert "parts__high[_place_2] = _record_1[0]" in text and "parts__low[_place_2] = _record_1[1]" in text
    assert "min(parts__high) + max(parts__low)" in text and "[split(" not in text


def rewritten(test: str) -> str:
    """What an event of the toy's takes `int` of, where the text has this test of a, b, op and x."""

    class Testing(Toy):
        """Another event."""

    code = "def clear(self, op, x):\n    a, b = x[0], x[1]\n    parts = [split(each) for each in x]\n"
    code += f"    return {{'total': int({test})}}\n"
    linecache.cache["testing"] = len(code), None, code.splitlines(keepends=True), "testing"
    names: dict[str, Any] = {"split": split}
    exec(compile(code, "testing", "exec"), names)
    Testing.clear = names["clear"]
    device = Toy()
    device.__class__ = Testing
    lifted = Lifted(device, device.ports.outputs + device.ports.state)
    return (
        ast.unparse(lifted.functions[lifted.method("clear", event="clear")]).partition("f_whole(")[2].partition("\n")[0]
    )


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("a > b or a == 1 and b != 2", "(a > b) | (a == 1) & (b != 2)"),
        ("not a and a >> 1 < b", "(not a) & (a >> 1 < b)"),
        ("a in (1, 2)", "(a == 1) | (a == 2)"),
        ("a > b or op", "a > b or op"),
        ("b and a // b > 1", "b and a // b > 1"),
        ("b > 0 and a % b > 1", "b > 0 and a % b > 1"),
        ("a >= 0 and b >> a == 1", "a >= 0 and b >> a == 1"),
        ("a >= 0 and x[a] == 1", "a >= 0 and x[a] == 1"),
        ("a > 0 and int(a) == 1", "a > 0 and f_whole(a) == 1"),
    ],
)
def test_independent_tests_are_lifted_without_branches(test: str, text: str) -> None:
    assert rewritten(test).startswith(f"{text})")


def test_part_of_list_of_tuples_is_list() -> None:
    assert rewritten("tuple(each.low for each in parts)[2]").startswith("parts__low[2])")


def test_whole_list_of_tuples_is_rejected() -> None:
    class Whole(Toy):
        """Lists that are compared."""

        def clear(self, op: int, x: tuple[int, ...]) -> Changes:
            """The total becomes 0."""
            parts = [split(value) for value in x]
            return {"total": int(parts == parts)}

    device = Toy()
    device.__class__ = Whole
    with pytest.raises(Refused, match=r"test_lifter.py:\d+: this use of a list of tuples has no compiled form: parts"):
        Lifted(device, device.ports.outputs + device.ports.state).method("clear", event="clear")
