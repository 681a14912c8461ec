"""Checks of the cases that a tap received: the units accept and evaluate them."""

from collections.abc import Iterable
from typing import Any

from refemu import units
from refemu.units.unit import Cases

Told = tuple[int, str, Cases]  #: layer, unit, what the scheme showed it


def evaluated(unit: str, case: Cases) -> Any:
    """The unit's own answer."""
    found = units.find(unit)
    return found.evaluate(found.config(case.config), case.inputs)


def require_ports(told: Iterable[Told]) -> None:
    """Every case has the ports of its unit, in their shapes and ranges, and one number of rows and events."""
    for layer, name, case in told:
        unit = units.find(name)
        ports = unit.ports(unit.config(case.config))
        leading = 1 + (unit.timing == "event")
        assert (case.kind, case.source["layer"]) == ("model", layer)
        assert set(case.inputs) == {port.name for port in ports.inputs}
        assert len({array.shape[:leading] for array in case.inputs.values()}) == 1
        for port in ports.inputs:
            assert case.inputs[port.name].shape[leading:] == port.shape
            port.validate(case.inputs[port.name], name)
