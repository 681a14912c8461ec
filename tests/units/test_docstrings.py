"""Numpydoc sections of `run` and of a unit's methods follow from its ports."""

import inspect

import docstring_parser
import pytest

from refemu import units
from refemu.units import docstrings


def parsed(function: object) -> docstring_parser.Docstring:
    return docstring_parser.parse(inspect.getdoc(function) or "", docstring_parser.DocstringStyle.NUMPYDOC)


def test_run_describes_inputs_by_their_ports() -> None:
    pair, bias, *_ = parsed(units.find("ovp_decoder").run).params

    assert (pair.arg_name, pair.type_name) == ("pair", "array_like of uint8")
    assert pair.description == "Two codes, the left element in the low half; 0 to 255."
    assert bias.description == "Added to an outlier's exponent field; 0 to 15."


def test_run_describes_parameters_as_the_constructor_does() -> None:
    unit = units.find("ovp_decoder")
    ours = {each.arg_name: each.description for each in parsed(unit.run).params}
    theirs = {each.arg_name: each.description for each in parsed(unit.unit_class.__init__).params}

    assert theirs and theirs.items() <= ours.items()


@pytest.mark.parametrize(
    ("unit", "text"),
    [("olive_edp", "sequence of 8 int"), ("ovp_decoder", "int")],
)
def test_step_takes_ints(unit: str, text: str) -> None:
    assert parsed(units.find(unit).unit_class.step).params[0].type_name == text


def test_lanes_and_patterns_are_shown() -> None:
    (value, *_) = parsed(units.find("ovp_encoder").run).params
    (returns,) = parsed(units.find("ovp_decoder").run).many_returns

    assert value.type_name == "array_like of uint32 (..., 2)" and "float32 patterns" in (value.description or "")
    assert "`exponent`: uint8 (..., 2), shift of each integer." in (returns.description or "")


def test_a_section_is_its_lines() -> None:
    text = "First.\n\nParameters\n----------\nx : int\n    Factor.\n\nReturns\n-------\nint\n    Product.\n"

    assert docstrings.section(text, "Parameters") == "x : int\n    Factor."
    assert docstrings.section(text, "Raises") == docstrings.section(None, "Raises") == ""
    assert docstrings.sections(Parameters="x : int", Raises="") == "Parameters\n----------\nx : int"
