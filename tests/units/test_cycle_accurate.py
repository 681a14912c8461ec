"""The clocked forms: rows are the events of the whole operation, and the decisions of the handshake."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units import cycle_accurate
from refemu.units import variant as other
from refemu.units.cycle_accurate import CycleAccurate
from refemu.units.ports import Port, Ports
from refemu.units.stepping import Result
from refemu.units.unit import AnyUnit

NAMES = [name for name in units.names() if issubclass(units.find(name).unit_class, CycleAccurate)]
CLOCKED = [pytest.param(units.find(name), id=name) for name in NAMES]


def device(unit: AnyUnit) -> Any:
    """In the first ready configuration."""
    return unit.unit_class(**next(iter(unit.configs.values())))


def operands(unit: AnyUnit) -> list[list[Any]]:
    """Of all operations among the paper and random cases of the whole operation, as `step` takes them."""
    inner = device(unit).inner
    whole, config = units.find(inner.name), next(iter(unit.configs.values()))
    blocks = [block.inputs for kind in ("paper", "random") for block in whole.cases(config, kind, 0)]
    return [
        list(row)
        for block in blocks
        for row in zip(*(block[port.name].tolist() for port in inner.ports.inputs), strict=True)
    ]


def closed(unit: AnyUnit, run: Callable[[int], tuple[int, list[Any]]]) -> list[Any]:
    """States of one operation and the edge after it; run: start and operands by row."""
    machine, states = device(unit), []
    while not states or states[-1].busy:
        states.append(machine.step(*_flat(run(len(states)))))
    return [*states, machine.step(*_flat(run(len(states))))]


def _flat(row: tuple[int, list[Any]]) -> list[Any]:
    return [row[0], *row[1]]


def outputs(unit: AnyUnit, state: Any) -> dict[str, Any]:
    """What the outputs of the whole operation and the registers hold."""
    inner = device(unit).inner
    return {port.name: getattr(state, port.name) for port in inner.ports.outputs + inner.ports.state}


def test_every_unit_of_several_events_has_one() -> None:
    assert NAMES == ["mmaovp_clocked", "olive_edp_clocked", "orizuru_clocked"]


@pytest.mark.parametrize("unit", CLOCKED)
def test_ready_configurations_are_those_of_the_whole_operation(unit: AnyUnit) -> None:
    assert unit.configs.items() <= units.find(device(unit).inner.name).configs.items()


@pytest.mark.parametrize("unit", CLOCKED)
def test_rows_are_the_events_of_the_whole_operation(unit: AnyUnit) -> None:
    """Its outputs, registers, event and counters; `phase` numbers them."""
    inner, (first, *_) = device(unit).inner, operands(unit)
    events = [inner._open(*map(_frozen, first))]
    while inner.busy:
        events.append(inner._continue())
    *states, _ = closed(unit, lambda row: (int(row == 0), first))

    assert len(states) == len(events) and [state.phase for state in states] == list(range(len(events)))
    for state, event in zip(states, events, strict=True):
        assert state.event == event.event and outputs(unit, state) == outputs(unit, event)
        assert all(getattr(state, name) == getattr(event, name) for name in unit.counters)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("unit", CLOCKED)
def test_start_and_operands_are_ignored_while_busy(unit: AnyUnit) -> None:
    """D-arith-19: start=1 with other operands in every row changes nothing until the row after the last event."""
    first, *others = operands(unit)
    quiet = closed(unit, lambda row: (int(row == 0), first))
    loud = closed(unit, lambda row: (1, others[row % len(others)] if row else first))

    assert [outputs(unit, state) for state in quiet[:-1]] == [outputs(unit, state) for state in loud[:-1]]
    assert [state.busy for state in loud] == [1] * (len(loud) - 2) + [0, 1]
    assert (loud[-1].phase, loud[-1].valid, quiet[-1].event) == (0, 0, "idle")


@pytest.mark.parametrize("unit", CLOCKED)
def test_outputs_show_the_registers_of_an_open_operation(unit: AnyUnit) -> None:
    """D-arith-20: no output is held back or gated; idle rows keep everything but their inputs."""
    first, second, *_ = operands(unit)
    states = closed(unit, lambda row: (int(row == 0), first if row == 0 else second))
    inner = device(unit).inner

    inner._open(*map(_frozen, first))
    assert outputs(unit, states[0]) == outputs(unit, inner.state)
    assert outputs(unit, states[-1]) == outputs(unit, states[-2]) != outputs(unit, states[0])


@pytest.mark.parametrize("unit", CLOCKED)
def test_valid_lasts_one_row(unit: AnyUnit) -> None:
    """D-arith-21: 1 in the row of the last event, 0 in all others."""
    first, *_ = operands(unit)
    states = closed(unit, lambda row: (int(row == 0), first))

    assert [state.valid for state in states] == [0] * (len(states) - 2) + [1, 0]
    assert [state.busy for state in states] == [1] * (len(states) - 2) + [0, 0]


@pytest.mark.parametrize("unit", CLOCKED)
def test_nothing_happens_without_a_start(unit: AnyUnit) -> None:
    machine, (first, *_) = device(unit), operands(unit)
    before = machine.snapshot()
    states = [machine.step(0, *first) for _ in range(3)]

    assert [state.index for state in states] == [0, 1, 2] and {state.event for state in states} == {"idle"}
    assert [outputs(unit, state) for state in states] == [outputs(unit, before)] * 3
    assert not any(state.busy or state.valid for state in states)


@pytest.mark.parametrize("unit", CLOCKED)
def test_another_device_resumes_from_any_state(unit: AnyUnit) -> None:
    """The inner unit gets the registers of a State that is not its last one."""
    first, *_ = operands(unit)
    states = closed(unit, lambda row: (int(row == 0), first))
    for number in {0, 1, len(states) // 2, len(states) - 3}:
        machine = device(unit)
        machine.restore(states[number])
        assert [machine.step(0, *first) for _ in states[number + 1 :]] == states[number + 1 :]


def answers(says: str, **inputs: Any) -> tuple[Result, Result]:
    """What olive_edp_clocked answers, and the device with one other answer."""
    unit = units.find("olive_edp_clocked")
    (chosen,) = (each for each in unit.variants if each.says == says)
    config = unit.configs["int4_flint4"]
    wrong = other.device(unit, config, [chosen])
    assert wrong is not None
    arrays = {port: np.array(values) for port, values in inputs.items()}
    return unit.evaluate(config, arrays), wrong.evaluate(arrays)


#: 1 + 8 * 2 in the rows 0 to 3, and in the rows 5 to 8 9 + 0 with an illegal pair
TWO = {
    "start": [[1, 0, 1, 0, 0, 1, 0, 0, 0, 0]],
    "a_pairs": [[[0x11] * 8] * 4 + [[0x08] + [0] * 7] * 6],
    "b_pairs": [[[0x11] * 8] * 10],
    "bias_a": [[2] * 10],
    "bias_b": [[2] * 10],
    "c": [[1] * 2 + [9] * 8],
}


def test_a_device_that_begins_again_at_a_start() -> None:
    """D-arith-19: of the start in row 2 it has the sum 9 + 16 in row 5, and takes the one in row 6 there."""
    right, wrong = answers("a start while busy begins another operation", **TWO)

    assert right.d[0].tolist() == [0, 0, 0, 17, 17, 17, 17, 17, 9, 9]
    assert wrong.d[0].tolist() == [0] * 8 + [9, 9]
    assert np.flatnonzero(wrong.valid[0]).tolist() == [8]


def test_devices_that_hold_outputs_back_or_gate_them() -> None:
    """D-arith-20: the flag of an illegal pair is up in row 5, and where it is held back in row 8."""
    right, held = answers("outputs stay those of the last closed operation", **TWO)
    _, gated = answers("outputs are 0 unless an operation closes", **TWO)

    assert right.illegal[0].tolist() == [0] * 5 + [1] * 5
    assert held.illegal[0].tolist() == [0] * 8 + [1] * 2 and held.d[0].tolist() == right.d[0].tolist()
    assert gated.d[0].tolist() == [0, 0, 0, 17, 0, 0, 0, 0, 9, 0]


def test_a_device_whose_valid_stays() -> None:
    """D-arith-21."""
    right, wrong = answers("valid stays 1 until the next operation begins", **TWO)

    assert np.flatnonzero(right.valid[0]).tolist() == [3, 8]
    assert np.flatnonzero(wrong.valid[0]).tolist() == [3, 4, 8, 9]


def test_flags_mark_rows_that_close_such_operation() -> None:
    """UNSPECIFIED goes by the biases that were taken, not by those on the ports."""
    unit = units.find("olive_edp_clocked")
    assert unit.mark is not None
    config = unit.configs["int4_flint4"]
    inputs = {port: np.array(values) for port, values in TWO.items()}
    marks = unit.mark(config, inputs, unit.evaluate(config, inputs))
    assert {flag: np.flatnonzero(rows).tolist() for flag, rows in marks.items()} == {"OVERFLOW": [], "ILLEGAL": [8]}

    tile = units.find("mmaovp_clocked")
    assert tile.mark is not None
    config, (first, *_) = tile.configs["i4_i4"], operands(tile)
    names = [port.name for port in device(tile).inner.ports.inputs]
    taken = {name: np.array([[value] * 128]) for name, value in zip(names, first, strict=True)}
    taken |= {"start": np.array([[1] + [0] * 127]), "bias_a": np.array([[8] + [0] * 127])}
    marks = tile.mark(config, taken, tile.evaluate(config, taken))
    assert np.flatnonzero(marks["UNSPECIFIED"]).tolist() == [127]


def test_ports_are_the_inner_ones_and_the_handshake() -> None:
    inner = Ports((Port("x", 4, 3), Port("y", 2)), (Port("z", 8),), (Port("r", 5),))
    ports = cycle_accurate.ports(inner, 9, ["y"])

    assert [port.name for port in ports.all] == ["start", "x", "y", "z", "busy", "valid", "phase", "y_held", "r"]
    assert {port.name: port.bits for port in ports.state} == {"phase": 4, "y_held": 2, "r": 5}


def test_states_have_the_fields_of_the_whole_operation() -> None:
    for name in NAMES:
        machine = device(units.find(name))
        fields, inner = ({field.name for field in dataclasses.fields(each.state)} for each in (machine, machine.inner))
        held = {f"{operand}_held" for operand in machine.held}
        assert fields - inner == ({"start", "phase", "busy", "valid"} | held) - inner and inner < fields
