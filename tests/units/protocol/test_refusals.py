"""What every unit refuses, stepped and run, and that a refusal leaves it as it was."""

import dataclasses

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.units.unit import Unit
from tests.units.protocol.blocks import CONFIGS, UNITS, blocks, rows


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_refused_step_leaves_the_state(unit: Unit, name: str) -> None:
    config, block = unit.configs[name], blocks(unit, name)[0]
    device = unit.unit_class(**config)
    event = {
        port.name: array.reshape(-1, *array.shape[1 + (unit.timing == "event") :])[0].tolist()
        for port, array in ((port, block.inputs[port.name]) for port in unit.ports(config).inputs)
    }
    device.step(**event)
    while device.busy:
        device.step()
    before = device.snapshot()
    for port in unit.ports(config).inputs:
        for wrong, error in (
            (port.limits[1] + 1, Refused),
            (port.limits[0] - 1, Refused),
            (1.5, RefusedType),
            (True, RefusedType),
            ("1", RefusedType),
        ):
            lanes = wrong if port.lanes == 1 else [wrong] * port.lanes
            with pytest.raises(error, match=rf"{unit.name}[:.] ?{port.name}"):
                device.step(**{**event, port.name: lanes})

    assert device.snapshot() == before


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "twin"])
def test_run_refuses_what_does_not_fit_a_port(unit: Unit, name: str, jit: bool) -> None:
    config, block = unit.configs[name], blocks(unit, name)[0]
    for port in unit.ports(config).inputs:
        good = {key: np.array(array, np.int64) for key, array in rows(unit, dict(block.inputs), 1).items()}
        wide = {**good, port.name: np.full_like(good[port.name], port.limits[1] + 1)}
        real = {**good, port.name: good[port.name].astype(np.float32)}
        with pytest.raises(Refused, match=rf"{unit.name}: {port.name} {port.limits[1] + 1} at index \(0,.*is outside"):
            unit.evaluate(config, wide, jit)
        with pytest.raises(RefusedType, match=rf"{unit.name}\.{port.name}: integers are needed, got dtype float32"):
            unit.evaluate(config, real, jit)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
@pytest.mark.parametrize("jit", [False, True], ids=["unit", "twin"])
def test_no_rows_give_no_results_and_count_nothing(unit: Unit, name: str, jit: bool) -> None:
    config, block = unit.configs[name], blocks(unit, name)[0]
    result = unit.evaluate(config, {port: array[:0] for port, array in block.inputs.items()}, jit)

    assert all(
        getattr(result, port.name).size == 0 and getattr(result, port.name).dtype == port.result_dtype
        for port in unit.ports(config).outputs
    )
    assert not any(getattr(result, field.name) for field in dataclasses.fields(result) if field.type is int)


@pytest.mark.parametrize("unit", UNITS)
def test_missing_and_unknown_ports_are_refused(unit: Unit) -> None:
    config = next(iter(unit.configs.values()))
    with pytest.raises(Refused, match=f"{unit.name}: inputs must be .*, got none"):
        unit.evaluate(config, {})
    with pytest.raises(Refused, match=f"{unit.name}: inputs must be .*, got bogus"):
        unit.trace(config, {"bogus": np.zeros(1, np.int64)})
