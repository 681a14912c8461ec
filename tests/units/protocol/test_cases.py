"""The golden cases of every unit: they fit its ports, have a reason, distinguish a device from none, are marked."""

from collections.abc import Callable

import pytest

from refemu.testing import protocol
from refemu.units.unit import AnyUnit
from tests.units.protocol.blocks import CONFIGS

RULES = (
    protocol.cases_fit_their_ports_and_say_why,
    protocol.first_row_detects_a_missing_device,
    protocol.cases_depend_on_the_seed_alone,
    protocol.random_cases_of_a_range_are_those_of_its_seeds,
    protocol.marks_and_masks_are_those_of_the_descriptor,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_cases(rule: Callable[[AnyUnit, str], None], unit: AnyUnit, name: str) -> None:
    rule(unit, name)
