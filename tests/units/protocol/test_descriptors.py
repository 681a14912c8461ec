"""Every unit describes itself: names, ports, flags, configurations."""

import re
from collections.abc import Callable

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.testing import protocol
from refemu.units.unit import AnyUnit, Unit
from tests.units.protocol.blocks import CONFIGS, STRUCTURES, UNITS


def test_names_are_the_modules() -> None:
    assert {"flint_decoder", "olive_mac", "outlier_decoder", "ovp_decoder"} <= set(units.names())
    assert list(units.names()) == sorted(units.names())


def test_unknown_unit_is_rejected_with_nearest_name() -> None:
    with pytest.raises(Refused, match="unknown unit 'ovp_decode'; did you mean 'ovp_decoder'"):
        units.find("ovp_decode")


@pytest.mark.parametrize("unit", UNITS)
def test_descriptor_is_complete(unit: Unit) -> None:
    assert unit is units.find(unit.name)
    assert re.match(r"(olive|kllm|harmonia|leankv) §", unit.paper)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_configuration(unit: AnyUnit, name: str) -> None:
    protocol.descriptor_follows_its_rules(unit, name)
    protocol.device_and_config_evaluate_back(unit, name)


RULES = (protocol.port_names_are_no_keywords, protocol.state_and_result_are_named_as_the_ports)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize(("unit", "name"), STRUCTURES)
def test_descriptor(rule: Callable[[AnyUnit, str], None], unit: AnyUnit, name: str) -> None:
    rule(unit, name)
