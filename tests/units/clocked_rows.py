"""Rows of a cycle-accurate unit, and those of the oracle."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units.unit import AnyUnit, Config


def reset(unit: AnyUnit, config: Mapping[str, Any], **registers: Any) -> dict[str, Any]:
    """Outputs, registers and counters at reset for the oracle: 0, but for `registers`."""
    ports = unit.ports(Config(**config))
    zeros: dict[str, Any] = {port.name: port.filled(0) for port in ports.outputs + ports.state}
    return zeros | dict.fromkeys(unit.counters, 0) | registers


def assert_rows(unit: AnyUnit, config: Mapping[str, Any], result: Any, expected: Sequence[Mapping[str, Any]]) -> None:
    """Every output and register of every row, and the counters of the last one."""
    ports = unit.ports(Config(**config))
    for port in ports.outputs + ports.state:
        want = np.array([np.ravel(row[port.name]) for row in expected])
        array = np.asarray(getattr(result, port.name))
        assert array.dtype == port.result_dtype, port.name
        assert np.array_equal(array.astype(np.int64).reshape(-1, port.count), want), port.name
    assert {name: getattr(result, name) for name in unit.counters} == {
        name: expected[-1][name] for name in unit.counters
    }
