"""The protocol of units passes a correct unit, and names the rule that a faulty one breaks."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from refemu import units
from refemu.testing import protocol, unit_protocol, unit_rules
from tests.plugin_distribution import CLIPPER


@pytest.fixture
def notebook() -> Iterator[ModuleType]:
    """A module without a file."""
    module = sys.modules["notebook"] = ModuleType("notebook")
    yield module
    del sys.modules["notebook"]


def test_correct_unit_passes(notebook: ModuleType) -> None:
    exec(CLIPPER, vars(notebook))
    unit = vars(notebook)["UNIT"]
    unit_protocol(unit)
    rules = unit_rules(unit)

    assert len({str(rule) for rule in rules}) == len(rules) > 40
    assert str(rules[0]) == "descriptor_follows_its_rules-b4"


@pytest.mark.parametrize(
    ("piece", "wrong", "rule"),
    [
        ("over", "output", "port_names_are_no_keywords"),
        ("(-128, 128)", "(-128, 129)", "cases_fit_their_ports_and_say_why"),
        ('"every value"', '""', "cases_fit_their_ports_and_say_why"),
        (", 100)}", ", 128)}", "first_row_detects_a_missing_device"),
        ("11 * each", "11", "cases_depend_on_the_seed_alone"),
        ("seeds = seed if isinstance(seed, range)", "seeds = (seed[0],) if isinstance(seed, range)", "random_cases_of"),
        ("@dataclass(frozen=True)", "@dataclass(unsafe_hash=True)", "states_are_frozen"),
        ("self._open(*self.validate_event(value))", "self._open(int(value))", "refused_step_leaves_the_state"),
    ],
)
def test_faulty_unit_fails_the_named_rule(notebook: ModuleType, piece: str, wrong: str, rule: str) -> None:
    assert piece in CLIPPER
    exec(CLIPPER.replace(piece, wrong), vars(notebook))
    with pytest.raises(AssertionError, match=f"clipper: {rule}"):
        unit_protocol(vars(notebook)["UNIT"])


def test_registers_outside_the_state_fail(notebook: ModuleType) -> None:
    source = CLIPPER.replace(
        "        high = (1",
        "        self.last, value = value, max(value, getattr(self, 'last', -128) // 128)\n        high = (1",
    )
    exec(source, vars(notebook))
    with pytest.raises(AssertionError, match="clipper: "):
        unit_protocol(vars(notebook)["UNIT"])


def test_compiled_form_that_differs_fails(notebook: ModuleType) -> None:
    def wrong(*values: Any, **named: Any) -> Any:
        result: Any = vars(notebook)["UNIT"].run(*values, **named)
        result.clipped[result.clipped == 3] = 2
        return result

    exec(CLIPPER.replace('compiled_run="none"', 'compiled_run="notebook:wrong"'), vars(notebook))
    vars(notebook)["wrong"] = wrong
    notebook.__spec__ = sys.__spec__
    with pytest.raises(
        AssertionError, match="compiled_form_equals_unit_on_every_case-b4: every value: the compiled form gives"
    ):
        unit_protocol(vars(notebook)["UNIT"])


def test_compiled_form_that_changes_inputs_fails(notebook: ModuleType) -> None:
    def wrong(*values: Any, **named: Any) -> Any:
        result: Any = vars(notebook)["UNIT"].run(*values, **named)
        named["value"][...] = 0
        return result

    exec(CLIPPER.replace('compiled_run="none"', 'compiled_run="notebook:wrong"'), vars(notebook))
    vars(notebook)["wrong"] = wrong
    notebook.__spec__ = sys.__spec__
    with pytest.raises(AssertionError, match="the compiled form changes its input value"):
        protocol.compiled_form_equals_unit_on_drawn_inputs(vars(notebook)["UNIT"], "b4")


def test_own_units_are_tested_by_the_protocol() -> None:
    unit_protocol(units.find("concat"))
