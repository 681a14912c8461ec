"""Events with their operations, cut to the size of a page."""

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.view import trace
from refemu.units import olive_mac, orizuru


def test_operations_are_counted() -> None:
    unit = orizuru.UNIT
    config = unit.config("n8")
    x = np.arange(24).reshape(3, 8)
    found = list(trace.trace(unit, config, {"x": x}))

    assert [state for _, state in found] == list(unit.trace(config, {"x": x}))
    assert [operation for operation, _ in found] == [row for row in range(3) for _ in range(len(found) // 3)]


def test_events_of_a_clocked_unit_are_operations() -> None:
    unit = olive_mac.UNIT
    inputs = {port.name: np.ones(4, np.int64) for port in unit.ports({}).inputs}

    assert [operation for operation, _ in trace.trace(unit, unit.config("wrap"), inputs)] == [0, 1, 2, 3]


def test_range_and_condition_cut_the_events() -> None:
    def events() -> object:
        return iter(enumerate("abcdef"))

    never = lambda state: False  # noqa: E731
    assert trace.cut(events(), 0, None, 4, never) == (list("abcd"), [0, 1, 2, 3], 6, False)  # type: ignore[arg-type]
    assert trace.cut(events(), 2, 4, 9, never) == (["c", "d"], [2, 3], 6, False)  # type: ignore[arg-type]
    assert trace.cut(events(), 0, None, 9, lambda state: state == "b") == (["a", "b"], [0, 1], 2, True)  # type: ignore[arg-type]
    for first, last in ((6, None), (0, 7), (9, 12)):
        with pytest.raises(Refused, match=r"--events must be in 0:6"):
            trace.cut(events(), first, last, 9, never)  # type: ignore[arg-type]
