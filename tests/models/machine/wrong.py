"""A unit that answers wrongly for the time of a test."""

from typing import Any

import numpy as np
import pytest

from refemu.units.unit import Unit


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
