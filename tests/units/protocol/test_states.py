"""The states of every unit: what a trace shows, frozen and comparable, restored at any step."""

from collections.abc import Callable

import pytest

from refemu.testing import protocol
from refemu.units.unit import AnyUnit
from tests.units.protocol.blocks import FIRST_CONFIGS, STRUCTURES


@pytest.mark.parametrize(
    "rule",
    [protocol.trace_shows_what_run_returns, protocol.restored_at_any_step_it_gives_the_same_rest],
    ids=lambda rule: rule.__name__,
)
@pytest.mark.parametrize(("unit", "name"), FIRST_CONFIGS)
def test_states_of_a_trace(rule: Callable[[AnyUnit, str], None], unit: AnyUnit, name: str) -> None:
    rule(unit, name)


@pytest.mark.parametrize(
    "rule",
    [
        protocol.states_are_frozen_comparable_hashable_and_evaluate_back_while_short,
        protocol.restore_takes_only_its_own_state,
    ],
    ids=lambda rule: rule.__name__,
)
@pytest.mark.parametrize(("unit", "name"), STRUCTURES)
def test_states(rule: Callable[[AnyUnit, str], None], unit: AnyUnit, name: str) -> None:
    rule(unit, name)
