"""Every unit and configuration of refemu, for the protocol suite."""

import pytest

from refemu import units
from refemu.testing.protocol_cases import blocks, evaluated, one_case, rows
from refemu.units.unit import Unit

__all__ = ["CONFIGS", "FIRST_CONFIGS", "STRUCTURES", "UNITS", "blocks", "evaluated", "one_case", "rows"]

CONFIGS = [
    pytest.param(units.find(unit), name, id=f"{unit}-{name}")
    for unit in units.names()
    for name in units.find(unit).configs
]
#: one configuration of each unit; the others in slow runs
FIRST_CONFIGS = [
    pytest.param(units.find(unit), name, id=f"{unit}-{name}", marks=[pytest.mark.slow] if number else [])
    for unit in units.names()
    for number, name in enumerate(units.find(unit).configs)
]


def _structure(unit: Unit, name: str) -> list[tuple[str, bool, bool]]:
    """What the class and the kinds of ports of a configuration depend on."""
    return [(port.name, port.signed, port.shape != ()) for port in unit.ports(unit.configs[name]).all]


#: one configuration of each unit and kind of ports: the others ask the same of the same class
STRUCTURES = [
    case
    for case in CONFIGS
    for unit, name in [case.values]
    if name == next(other for other in unit.configs if _structure(unit, other) == _structure(unit, name))
]
UNITS = [pytest.param(units.find(unit), id=unit) for unit in units.names()]
