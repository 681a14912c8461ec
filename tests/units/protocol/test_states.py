"""The states of every unit: what a trace shows, frozen and comparable, restored at any step."""

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.shown import MOST
from refemu.units.unit import Unit
from tests.units.protocol.blocks import CONFIGS, FIRST_CONFIGS, blocks, drawn, one_case


@pytest.mark.parametrize(("unit", "name"), FIRST_CONFIGS)
def test_trace_shows_what_run_returns(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    ports = unit.ports(config)
    for block in blocks(unit, name):
        inputs = one_case(unit, dict(block.inputs), 0)
        last = list(unit.trace(config, inputs))[-1]
        result = unit.evaluate(config, inputs, jit=False)
        counters = [field.name for field in dataclasses.fields(result) if field.type is int]

        assert all(
            np.array_equal(np.array(getattr(last, port.name)), getattr(result, port.name)[-1]) for port in ports.outputs
        )
        assert all(np.array_equal(np.array(getattr(last, port.name)), inputs[port.name][-1]) for port in ports.inputs)
        assert counters and all(getattr(last, counter) == getattr(result, counter) for counter in counters)


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_states_are_frozen_comparable_hashable_and_evaluate_back_while_short(unit: Unit, name: str) -> None:
    config, block = unit.configs[name], blocks(unit, name)[0]
    inputs = one_case(unit, dict(block.inputs), 0)
    states, again = (list(unit.trace(config, inputs)) for _ in range(2))

    assert states == again and len({*states, *again}) == len(set(states))
    names = dict(vars(importlib.import_module(unit.run.__module__)))
    texts = {repr(state): state for state in states}
    assert all(eval(text, names) == state for text, state in texts.items() if "..." not in text)
    assert all(len(text) <= MOST and len(str(state)) <= MOST for text, state in texts.items())
    with pytest.raises(dataclasses.FrozenInstanceError):
        states[0].index = 7


@pytest.mark.parametrize(("unit", "name"), FIRST_CONFIGS)
@settings(max_examples=10)
@given(data=st.data())
def test_restored_at_any_step_it_gives_the_same_rest(unit: Unit, name: str, data: st.DataObject) -> None:
    stimulus = data.draw(drawn(unit, name, most=4))
    device = unit.unit_class(**unit.configs[name])
    states: list[Any] = [device.snapshot()]
    steps: list[dict[str, Any]] = []
    ports = unit.ports(unit.configs[name]).inputs
    for values in zip(*(stimulus[port.name].tolist() for port in ports), strict=True):
        steps.append({port.name: value for port, value in zip(ports, values, strict=True)})
        states.append(device.step(**steps[-1]))
        while device.busy:
            steps.append({})
            states.append(device.step())
    at = data.draw(st.integers(0, len(steps)))
    device.restore(states[at])

    assert device.snapshot() == states[at]
    assert [device.step(**event) for event in steps[at:]] == states[at + 1 :]


@pytest.mark.parametrize(("unit", "name"), CONFIGS)
def test_restore_takes_only_its_own_state(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    device = unit.unit_class(**config)
    port = unit.ports(config).all[0]
    outside = port.limits[1] + 1
    bad = dataclasses.replace(device.snapshot(), **{port.name: outside if port.lanes == 1 else (outside,) * port.lanes})
    before = device.snapshot()
    with pytest.raises(RefusedType, match=f"{unit.name}: restore takes a State of this unit, got str"):
        device.restore("state")
    with pytest.raises(Refused, match=f"{unit.name}: {port.name} {outside}"):
        device.restore(bad)

    assert device.snapshot() == before
