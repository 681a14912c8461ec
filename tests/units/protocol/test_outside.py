"""Parameters from outside: every configuration that a unit takes has stimuli; cases that do not fit it are named."""

from typing import Any

import pytest

from refemu import golden, units
from refemu.testing import protocol
from refemu.units.unit import AnyUnit


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(units.find(name), id=name, marks=[pytest.mark.slow] if name == "olive_systolic" else [])
        for name in units.names()
    ],
)
def test_every_configuration_has_stimuli_that_it_takes(unit: AnyUnit) -> None:
    protocol.other_configurations_have_stimuli(unit, next(iter(unit.configs)))


def test_cases_that_do_not_fit_are_named(tmp_path: Any) -> None:
    (summary,) = golden.generate(tmp_path, units=["index_counter:counter_bits=3"])

    assert summary.rows == 52 and len(summary.left_out) == 9
    assert summary.left_out[0].startswith("K = 15: the lanes past the end are not valid: index_counter: count 15 of")
    assert golden.check(tmp_path)


def test_no_case_of_ready_configuration_is_left_out(tmp_path: Any) -> None:
    """A case that a ready configuration rejects is an error of the case."""
    left: list[str] = []
    unit = units.find("index_counter")
    blocks = list(unit.stimuli(unit.configs["w4a4"], "edge", 0, left.append))
    assert [block.why for block in blocks] == [each.why for each in unit.cases(unit.configs["w4a4"], "edge", 0)]
    assert not left
