"""Errors of every unit, stepped and run, which leave it unchanged."""

from collections.abc import Callable

import pytest

from refemu.testing import protocol
from refemu.units.unit import AnyUnit
from tests.units.protocol.blocks import STRUCTURES

RULES = (
    protocol.refused_step_leaves_the_state,
    protocol.readable_run_refuses_what_does_not_fit_a_port,
    protocol.compiled_form_rejects_misfits,
    protocol.no_rows_give_no_results_and_count_nothing,
    protocol.missing_and_unknown_ports_are_refused,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize(("unit", "name"), STRUCTURES)
def test_protocol_rejects_invalid_inputs(rule: Callable[[AnyUnit, str], None], unit: AnyUnit, name: str) -> None:
    rule(unit, name)
