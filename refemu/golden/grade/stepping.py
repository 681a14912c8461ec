"""Devices that are the readable unit with a register changed after its events, or when a case starts."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.golden.grade import device, slices
from refemu.golden.grade.answers import Answers, values
from refemu.golden.make.rows import Block
from refemu.units.ports import Port, collect
from refemu.units.stepping import Stepped
from refemu.units.unit import AnyUnit, Config

Hold = Callable[[Any], Any]  #: State after an event -> State of the device
Start = Callable[[Any, Any], Any]  #: State at reset, last State of the case before -> State in which a case starts
PROBED = 100  #: events in which a field is examined
STEPS = 1 << 15  #: most steps of an operation: a register too narrow to count to its end never ends


def wrong(answers: Answers, hold: Hold | None = None, start: Start | None = None) -> np.ndarray:
    """Rows in which such a device differs, in the first part of the stimulus with any: bool (rows,).

    Refused: the device raises an error in a State that the unit never has.
    """
    different = np.zeros(answers.rows, np.bool_)
    last: Any = None
    for first, block in slices.parts(answers):
        try:
            states, last = _states(answers, block, hold, start, last)
            got = _block(answers, block, states)
        except Exception as error:  # a faulty device may raise anything
            raise Refused(f"{type(error).__name__}: {error}") from error
        rows = device.unlike(answers, block, got)
        different[first : first + len(rows)] = rows
        if rows.any():
            break
    return different


@lru_cache(maxsize=64)
def registers(answers: Answers) -> Mapping[str, bool]:
    """Fields of the State that outlast an event, found by changing each after some events; True if one is read.

    Other fields keep the change until an event writes them, and show it if they are outputs.
    """
    unit, config = answers.unit, answers.config
    kind: type[Any] = unit.unit_class
    if not issubclass(kind, Stepped):
        return {}
    machine: Any = kind(**config)
    inputs = {port.name for port in unit.ports(config).inputs}
    names = [field.name for field in dataclasses.fields(machine.state)]
    aside = {"event", "index", *inputs, *unit.counters}
    seen: dict[str, set[str]] = {name: set() for name in names if name not in aside}
    for before, advance in _events(answers):
        for name, roles in seen.items():
            if "read" not in roles:
                roles.add(_role(unit, config, before, advance, name))
    return {name: "read" in roles for name, roles in seen.items() if roles & {"read", "held"}}


def _role(unit: AnyUnit, config: Config, before: Any, advance: Callable[[Any], Any], name: str) -> str:
    """Whether the event after `before` reads a field, retains it, or neither."""
    value = getattr(before, name)
    other = _changed(value)
    if other is None:
        return "unknown"
    right, machine = unit.unit_class(**config), unit.unit_class(**config)
    _enter(right, before)
    want = advance(right)
    try:
        _enter(machine, dataclasses.replace(before, **{name: other}))
        got = advance(machine)
    except Exception:  # a State that the unit never has
        return "read"
    if getattr(want, name) == value and getattr(got, name) == other:
        return "held" if dataclasses.replace(got, **{name: value}) == want else "read"
    return "read" if got != want else "written"


def _changed(value: Any) -> Any:
    """A different value of the same shape; None if the value cannot be changed."""
    if isinstance(value, tuple):
        return tuple(_changed(each) for each in value) if value and _changed(value[0]) is not None else None
    return value ^ 1 if isinstance(value, int) else None


def _events(answers: Answers) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
    """States of the right unit, and functions that make the next ones."""
    count = 0
    for _, block in slices.parts(answers):
        for machine, operations in _cases(answers, block, None, None, [None]):
            for inputs in operations:
                before = machine.state
                machine._open(*inputs)
                yield before, lambda other, inputs=inputs: other._open(*inputs)  # type: ignore[misc]
                while machine.busy:
                    before = machine.state
                    machine._continue()
                    yield before, lambda other: other._continue()
                    count += 1
                count += 1
                if count >= PROBED:
                    return


def _states(answers: Answers, block: Block, hold: Hold | None, start: Start | None, last: Any) -> tuple[list[Any], Any]:
    """The State at the end of each row of a block. last: the final State of the case before."""
    states, kept = [], [last]
    for machine, operations in _cases(answers, block, hold, start, kept):
        for inputs in operations:
            machine._open(*inputs)
            _tamper(machine, hold)
            steps = 0
            while machine.busy:
                machine._continue()
                _tamper(machine, hold)
                steps += 1
                if steps >= STEPS:
                    raise Refused(f"still busy after {STEPS} steps of an operation")
            states.append(machine.state)
        kept[0] = machine.state
    return states, kept[0]


def _cases(
    answers: Answers, block: Block, hold: Hold | None, start: Start | None, kept: list[Any]
) -> Iterator[tuple[Any, list[tuple[Any, ...]]]]:
    """A unit in the State at the start of a case, and the inputs of its operations."""
    unit, config = answers.unit, answers.config
    ports, inputs = unit.ports(config).inputs, values(answers.unit, answers.config, block)
    columns = [_column(inputs[port.name], port, unit.timing == "event") for port in ports]
    machine = unit.unit_class(**config)
    reset = machine.state
    for case in zip(*columns, strict=True):
        _enter(machine, reset if start is None or kept[0] is None else start(reset, kept[0]))
        yield machine, list(zip(*case, strict=True))


def _column(array: np.ndarray, port: Port, events: bool) -> list[list[Any]]:
    """Values of a port by case and event: ints, or tuples of lanes."""
    rows = array if events else array[:, None]
    listed: list[list[Any]] = rows.tolist()
    return [[tuple(value) for value in case] for case in listed] if port.shape else listed


def _tamper(machine: Any, hold: Hold | None) -> None:
    if hold is not None:
        held = hold(machine.state)
        if held is not machine.state:
            _enter(machine, held)


def _enter(machine: Any, state: Any) -> None:
    """Set the State of a unit, without the checks of `restore` if that only stores it."""
    if type(machine).restore is Stepped.restore:
        machine.state = state
    elif state is not machine.state:
        machine.restore(state)


def _block(answers: Answers, block: Block, states: list[Any]) -> Block:
    outputs = answers.unit.ports(answers.config).outputs
    arrays: Mapping[str, np.ndarray] = collect(states, outputs, block.shape)
    encoded = {
        f"out.{port.name}": fields.encode(arrays[port.name], port, f"{answers.unit.name}.{port.name}")
        for port in outputs
    }
    return Block(block.cases, encoded, block.flags)
