"""A unit that answers wrongly for the time of a test."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units.unit import Unit


def outputs(*names: str) -> list[tuple[str, str]]:
    """Every output port of these units: parameters `unit` and `port` of a test."""
    return [
        (unit.name, name)
        for unit in map(units.find, names)
        for name in dict.fromkeys(port.name for ports in unit.ready_ports for port in ports.outputs)
    ]


def everywhere(monkeypatch: pytest.MonkeyPatch, unit: str, port: str) -> None:
    """Make every lane of `port` wrong by its lowest bit, whenever `unit` is evaluated."""
    right = Unit.evaluate

    def evaluate(self: Any, *arguments: Any, **named: Any) -> Any:
        answer = right(self, *arguments, **named)
        if self.name == unit and getattr(answer, port) is not None:  # None: not in this configuration
            array = np.array(getattr(answer, port))
            object.__setattr__(answer, port, array ^ array.dtype.type(1))
        return answer

    monkeypatch.setattr(Unit, "evaluate", evaluate)


def answers(monkeypatch: pytest.MonkeyPatch, unit: str, port: str) -> None:
    """Make the last lane of `port` wrong by its lowest bit, whenever `unit` is evaluated."""
    right = Unit.evaluate

    def evaluate(self: Any, *arguments: Any, **named: Any) -> Any:
        answer = right(self, *arguments, **named)
        if self.name == unit:
            array = np.array(getattr(answer, port))
            array.reshape(-1)[-1] ^= 1
            object.__setattr__(answer, port, array)
        return answer

    monkeypatch.setattr(Unit, "evaluate", evaluate)
