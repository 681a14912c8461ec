"""Rows of a cycle-accurate unit, and those of the oracle."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units.unit import AnyUnit, Config, Kind


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


def assert_cases(
    unit: AnyUnit,
    name: str,
    kind: Kind,
    run: Any,
    expected: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], Any],
) -> None:
    """Every golden case of a configuration, each device by itself. expected: rows of the oracle for its inputs."""
    config = unit.configs[name]
    for case in unit.cases(config, kind, 0):
        for device in range(len(next(iter(case.inputs.values())))):
            inputs = {port: values[device] for port, values in case.inputs.items()}
            assert_rows(unit, config, run(**inputs, **config), expected(config, inputs))
