"""Names of the readable text, and lines of floating point."""

import pytest

from refemu import units
from refemu.prove import lift, terms
from refemu.prove.naming import Names, named_lift, real_line
from refemu.prove.values import Int

A = terms.variable("a", 8)


def test_names_do_not_change_terms() -> None:
    unit, config = units.choose("ovp_decoder:int4")

    named, names = named_lift(unit, unit.config(config))

    assert named.terms == lift.lift(unit, unit.config(config)).terms
    assert {"decode_left", "is_illegal", "lane_0"} <= {name for _, name in names.known.values()}


def test_innermost_name_of_a_term_counts() -> None:
    names, value = Names(), Int(terms.sext(terms.add(A, A), 9), -128, 127)
    names.give("inner", (value, 3))
    names.give("outer", value)

    assert [name for _, name in names.known.values()] == ["inner_0"]


@pytest.mark.parametrize("value", [A, terms.const(1, 8)])
def test_inputs_and_constants_get_no_names(value: terms.Term) -> None:
    names = Names()
    names.give("x", Int(terms.zext(value, 9), 0, 255))

    assert not names.known


def test_line_of_floating_point_is_known() -> None:
    unit, config = units.choose("fp2half")
    named, names = named_lift(unit, unit.config(config))

    assert "fp2half.py:" in str(real_line(names, named.roots))
    assert real_line(names, [terms.add(A, A)]) is None
