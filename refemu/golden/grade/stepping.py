"""Devices that are the readable unit with a register changed after its events, or when a case starts."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.golden.grade import device, slices
from refemu.golden.grade.answers import Answers, values
from refemu.golden.make.rows import Block
from refemu.units.ports import OutsidePort, Port, collect
from refemu.units.stepping import Stepped
from refemu.units.unit import AnyUnit, Config

Hold = Callable[[Any], Any]  #: State after an event -> State of the device
Start = Callable[[Any, Any], Any]  #: State at reset, last State of the case before -> State in which a case starts
PROBED = 100  #: events in which a field is examined
STEPS = 1 << 15  #: most steps of an operation: a register too narrow to count to its end never ends


@dataclass(frozen=True)
class Tampering:
    """What is done to the registers of a readable unit."""

    hold: Hold | None = None
    start: Callable[[], Start] | None = None  #: makes that of a stimulus


class Tampered:
    """A readable unit whose registers are tampered with; it goes through a stimulus in several calls."""

    ports: tuple[Port, ...]
    event: bool
    machine: Any
    reset: Any
    steps: int
    hold: Hold | None
    start: Start | None

    def __init__(self, unit: AnyUnit, config: Config, tampering: Tampering | None = None, steps: int = STEPS) -> None:
        self.ports, self.event = unit.ports(config).inputs, unit.timing == "event"
        self.machine = unit.unit_class(**config)
        self.reset = self.machine.state
        self.steps, self.hold = steps, tampering.hold if tampering else None
        self.start = tampering.start() if tampering and tampering.start else None
        self.last: Any = None  #: State that ended the case before

    def cases(self, inputs: Mapping[str, np.ndarray]) -> Iterator[list[tuple[Any, ...]]]:
        """Inputs of the operations of each case; the unit is then in the State in which it starts."""
        columns = [_column(inputs[port.name], port, self.event) for port in self.ports]
        for case in zip(*columns, strict=True):
            fresh = self.start is None or self.last is None
            _enter(self.machine, self.reset if fresh else self.start(self.reset, self.last))  # type: ignore[misc]
            yield list(zip(*case, strict=True))
            self.last = self.machine.state

    def operations(self, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[int, Any]]:
        """Row in its case and State at the end of each operation of a block of cases."""
        for operations in self.cases(inputs):
            for row, values_ in enumerate(operations):
                self.machine._open(*values_)
                self._tamper()
                steps = 0
                while self.machine.busy:
                    self.machine._continue()
                    self._tamper()
                    steps += 1
                    if steps >= self.steps:
                        raise Refused(f"still busy after {steps} steps of one operation")
                yield row, self.machine.state

    def _tamper(self) -> None:
        if self.hold is not None:
            held = self.hold(self.machine.state)
            if held is not self.machine.state:
                _enter(self.machine, held)


def wrong(answers: Answers, tampering: Tampering) -> np.ndarray:
    """Rows in which such a device differs, in the first part of the stimulus that has some: bool (rows,).

    Refused: the device raises an error in a State that the unit never has.
    """
    device_ = Tampered(answers.unit, answers.config, tampering)

    def rows(block: Block) -> np.ndarray:
        try:
            states = [state for _, state in device_.operations(values(answers.unit, answers.config, block))]
            arrays = encoded(answers.ports, states, block.shape)
        except OutsidePort as error:
            return device.outside(answers, block, error)
        except Exception as error:  # whatever a faulty device does
            raise Refused(f"{type(error).__name__}: {error}") from error
        return device.unlike(answers, block, Block(block.cases, arrays, block.flags))

    return slices.until_wrong(answers, rows)


def encoded(ports: Mapping[str, Port], states: list[Any], shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Bit patterns of `ports` in `states`, by name: (cases, rows), then lanes if there are several."""
    arrays: Mapping[str, np.ndarray] = collect(states, tuple(ports.values()), shape)
    return {name: fields.encode(arrays[port.name], port, name) for name, port in ports.items()}


def names(unit: AnyUnit, config: Config) -> tuple[str, ...]:
    """Fields of the State that may outlast an event."""
    kind: type[Any] = unit.unit_class
    if not issubclass(kind, Stepped):
        return ()
    inputs = {port.name for port in unit.ports(config).inputs}
    aside = {"event", "index", *inputs, *unit.counters}
    fields_ = dataclasses.fields(kind(**config).state)
    return tuple(field.name for field in fields_ if field.name not in aside)


@lru_cache(maxsize=64)
def registers(answers: Answers, probed: int = PROBED) -> Mapping[str, bool]:
    """Fields of the State that outlast an event, seen by changing each after some events; True where one is read.

    Other fields keep the change until an event writes them, and show it if they are outputs.
    """
    unit, config = answers.unit, answers.config
    seen: dict[str, set[str]] = {name: set() for name in names(unit, config)}
    for before, advance in islice(_events(answers), probed) if seen else ():
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
    """States of the right unit, and what makes the next one."""
    for _, block in slices.parts(answers):
        device_ = Tampered(answers.unit, answers.config)
        machine = device_.machine
        for operations in device_.cases(values(answers.unit, answers.config, block)):
            for inputs in operations:
                before = machine.state
                machine._open(*inputs)
                yield before, lambda other, inputs=inputs: other._open(*inputs)  # type: ignore[misc]
                while machine.busy:
                    before = machine.state
                    machine._continue()
                    yield before, lambda other: other._continue()


def _column(array: np.ndarray, port: Port, events: bool) -> list[list[Any]]:
    """Values of a port by case and event: ints, or tuples of lanes."""
    rows = array if events else array[:, None]
    listed: list[list[Any]] = rows.tolist()
    return [[tuple(value) for value in case] for case in listed] if port.shape else listed


def _enter(machine: Any, state: Any) -> None:
    """Set the State of a unit, without the checks of `restore` if that only stores it."""
    if type(machine).restore is Stepped.restore:
        machine.state = state
    elif state is not machine.state:
        machine.restore(state)
