"""Every unit describes itself: names, ports, flags, configurations."""

import dataclasses
import re

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.rtl import keywords
from refemu.units.unit import Config, Unit
from tests.units.protocol.blocks import CONFIGS, UNITS


def test_names_are_the_modules() -> None:
    assert {"flint_decoder", "olive_mac", "outlier_decoder", "ovp_decoder"} <= set(units.names())
    assert list(units.names()) == sorted(units.names())


def test_unknown_unit_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refused, match="unknown unit 'ovp_decode'; did you mean 'ovp_decoder'"):
        units.find("ovp_decode")


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_port_names_are_no_keywords(unit: Unit, name: str) -> None:
    """Of Verilog, SystemVerilog or C: RTL and kernels use them as they are."""
    ports = unit.ports(unit.configs[name])
    keywords.require_names([port.name for port in (*ports.inputs, *ports.outputs)], unit.name)
    keywords.require_names([port.name for port in ports.state], unit.name)


@pytest.mark.parametrize("unit", UNITS)
def test_descriptor_is_complete(unit: Unit) -> None:
    assert unit is units.find(unit.name)
    assert unit.configs and unit.meaning and re.match(r"(olive|kllm|harmonia|leankv) §", unit.paper)
    assert unit.timing in ("combinational", "event")
    assert sorted(flag.bit for flag in unit.flags.values()) == list(range(len(unit.flags)))
    assert repr(unit) == f"<Unit {unit.name}: {unit.meaning}>"


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_state_and_result_are_named_as_the_ports(unit: Unit, name: str) -> None:
    ports = unit.ports(unit.configs[name])
    device = unit.unit_class(**unit.configs[name])
    state = {field.name for field in dataclasses.fields(device.snapshot())}
    result = {field.name for field in dataclasses.fields(unit.result)}

    assert {"event", "index"} | {port.name for port in ports.all} <= state
    assert {port.name for port in ports.outputs + ports.state} | set(unit.counters) <= result
    assert len({port.name for port in ports.all}) == len(ports.all)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_device_and_config_evaluate_back(unit: Unit, name: str) -> None:
    config, unit_class = unit.configs[name], unit.unit_class
    device = unit_class(**config)
    rebuilt = eval(repr(device), {unit_class.__name__: unit_class})

    assert repr(rebuilt) == repr(device) and rebuilt.snapshot() == device.snapshot()
    assert eval(repr(config), {"Config": Config}) == config and hash(config) == hash(Config(**config))
