"""Every unit and configuration of refemu, for the protocol suite."""

import pytest

from refemu import units
from refemu.testing.material import blocks, evaluated, one_case, rows

__all__ = ["CONFIGS", "FIRST_CONFIGS", "UNITS", "blocks", "evaluated", "one_case", "rows"]

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
UNITS = [pytest.param(units.find(unit), id=unit) for unit in units.names()]
