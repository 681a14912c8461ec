"""Units that are stepped event by event, and the Result of their `run`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.units import events, state_text
from refemu.units.config import Config
from refemu.units.ports import Ports, in_order, validate

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Result:
    """Base of every Result: outputs as arrays, counters as int."""

    def equals(self, other: object) -> bool:
        """Whether the other Result has the same type, and every field the same dtype, shape and content."""
        if type(self) is not type(other):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))

    def __repr__(self) -> str:  # shared by all derived Results: one for each would slow every start
        state_text = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
        return f"{type(self).__qualname__}({state_text})"

    if TYPE_CHECKING:  # fields of a derived Result; `units.find` knows each by name

        def __getattr__(self, name: str) -> np.ndarray: ...


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    return bool(a.equals(b) if hasattr(a, "equals") else a == b)


@functools.cache
def _registers(state: type[Any]) -> tuple[str, ...]:
    """Names of the fields of a State, cached: every compiled call makes a device, and a lookup is slow."""
    return tuple(inspect.signature(state).parameters)


class Stepped(Generic[S]):
    """Base of the stepping classes: one immutable State, replaced as a whole by an event.

    So a call that raises does not change the state, and an event reads committed registers only. A class has `step`,
    whose arguments are the inputs of one event, and `_open`, which takes checked inputs; if an operation has several
    events, also `busy` and `_continue`.
    """

    name: ClassVar[str]  #: name of the unit, at the start of error messages
    _broadcast: ClassVar[Callable[..., list[np.ndarray]]] = staticmethod(validate)  #: checks arrays of inputs
    _unit: ClassVar[Any] = None  #: descriptor of the unit, if any
    ports: Ports
    state: S  #: the module's State: event, index, every port and register under its own name, counters

    @property
    def busy(self) -> bool:
        """Whether events of the current operation remain; `step()` then takes no inputs."""
        return False

    def snapshot(self) -> S:
        """Every register, port and counter after the last event: a State, frozen, comparable and hashable."""
        return self.state

    def restore(self, state: S) -> None:
        """Restore every register to its value when `state` was taken.

        Raises Refused if a port of the State is out of range, RefusedType if it is of another unit.
        """
        if type(state) is not type(self.state):
            raise RefusedType(f"{self.name}: state must be a State of this unit, got {type(state).__name__}")
        for port in self.ports.all:
            port.validate_one(getattr(state, port.name), self.name)
        self.state = state

    def _repr_html_(self) -> str:
        state = self.state
        drawing = state_text.drawing(self._unit, self.ports, state) if self._unit else ""
        return events.to_html(repr(self), self.ports, [state]) + drawing

    def __repr__(self) -> str:
        values = [(name, getattr(self, name)) for name in inspect.signature(type(self)).parameters]
        state_text = [f"{name}={(value.value if isinstance(value, Enum) else value)!r}" for name, value in values]
        return f"{type(self).__name__}({', '.join(state_text)})"

    def reset(self, state: type[S], **registers: Any) -> S:
        """State at reset: event "reset", index -1, 0 in ports, lanes and counters, other values in `registers`."""
        lanes = {port.name: (0,) * port.lanes for port in self.ports.all if port.lanes}
        fields = dict.fromkeys(_registers(state), 0) | lanes  # type: ignore[arg-type]  # a class is hashable
        return state(**{**fields, "event": "reset", "index": -1, **registers})

    def latched(self, *inputs: Any, **changed: Any) -> S:
        """Present State with the next index, new inputs and other changed fields; it is not committed."""
        ports = {port.name: value for port, value in zip(self.ports.inputs, inputs, strict=True)}
        registers: dict[str, Any] = vars(self.state)
        return type(self.state)(**{**registers, "index": registers["index"] + 1, **ports, **changed})

    def changed(self, **fields: Any) -> S:
        """Present State with some fields changed, not committed; four times as fast as `dataclasses.replace`.

        Raises TypeError for a name that is not a field of the State.
        """
        before = self.state
        state: S = object.__new__(before.__class__)
        values = state.__dict__
        values |= before.__dict__
        values |= fields
        if len(values) != len(before.__dict__):
            unknown = ", ".join(sorted(set(fields) - set(vars(before))))
            raise TypeError(f"{self.name}: no field of State: {unknown}")
        return state

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject inputs that fit their ports but that the block cannot process; name the first bad index.

        inputs: arrays of one shape in the ports' order, lanes last. For a single event they have no other axis.
        """

    def validate_event(self, *values: Any, **named: Any) -> list[Any]:
        """Check the inputs of one event, in order or by name of the port: Python ints, tuples for lanes.

        Raises Refused for a value that is out of range or that the block cannot process, RefusedType for an input that
        is missing, unknown or of another type.
        """
        ordered = in_order(self.name, self.ports.inputs, values, named)
        inputs = [port.validate_one(value, self.name) for port, value in zip(self.ports.inputs, ordered, strict=True)]
        if type(self)._require is not Stepped._require:  # only then: arrays would slow steps of other units
            self._require(*(np.array(value, port.dtype) for value, port in zip(inputs, self.ports.inputs, strict=True)))
        return inputs

    def validated(self, *values: Any, **named: Any) -> list[np.ndarray]:
        """Check the inputs of many events, in order or by name, and broadcast them: arrays of one shape, lanes last.

        At least one input of a sequential unit needs an axis, the sequence of events. Raises Refused for a value out of
        range or shapes that do not broadcast, RefusedType for an input that is missing, unknown or of another dtype.
        """
        arrays = self._broadcast(self.name, self.ports.inputs, in_order(self.name, self.ports.inputs, values, named))
        self._require(*arrays)
        return arrays

    def steps(self, *values: Any, **named: Any) -> Iterator[S]:
        """Yield the State after every event of every operation, in C order.

        Parameters
        ----------
        *values : array_like of integers
            Inputs as for `run`.
        **named : array_like of integers
            The same by name of the port.

        Returns
        -------
        iterator of State
            States in order.

        Raises
        ------
        Refused
            As `validated` does.
        """
        yield from self.operations(self.validated(*values, **named))

    def operations(self, arrays: Sequence[np.ndarray]) -> Iterator[S]:
        """Yield the State after every event of checked inputs: `arrays` from `validated`, one per input port."""
        flat = [
            map(tuple, array.reshape(-1, port.lanes).tolist()) if port.lanes else array.reshape(-1).tolist()
            for array, port in zip(arrays, self.ports.inputs, strict=True)
        ]
        for inputs in zip(*flat, strict=True):
            yield self._open(*inputs)
            while self.busy:
                yield self._continue()

    def _stepped(self, **inputs: Any) -> S:
        """`step` of an operation of several events: `inputs` begin one; without inputs the next event follows.

        None means no input. Raises Refused for inputs during an operation, and for no inputs outside of one.
        """
        present = {name: value for name, value in inputs.items() if value is not None}
        if self.busy and present:
            raise Refused(f"{self.name}: step takes no inputs after event {self.state.event}")  # type: ignore[attr-defined]
        if not self.busy and not present:
            raise Refused(f"{self.name}: step needs the inputs of an operation, got none")
        return self._open(*self.validate_event(**present)) if present else self._continue()

    def _open(self, *inputs: Any) -> S:
        """Run the first event of an operation, or the only one; inputs from `accept`."""
        step: Callable[..., S] = getattr(self, "step")  # noqa: B009  each unit has its own arguments
        return step(*inputs)

    def _continue(self) -> S:
        """Run the next event of the operation under way."""
        step: Callable[..., S] = getattr(self, "step")  # noqa: B009
        return step()


class Descriptor(Protocol):
    """Attributes of a Unit that lower modules read; `Unit` explains them."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def paper(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def configs(self) -> Mapping[str, Config]: ...
    @property
    def ready_ports(self) -> tuple[Ports, ...]: ...
    @property
    def unit_class(self) -> type[Stepped[Any]]: ...
    @property
    def counters(self) -> Sequence[str]: ...
    @property
    def peaks(self) -> Sequence[str]: ...
    @property
    def timing(self) -> str: ...
    @property
    def result(self) -> type[Any]: ...
    @property
    def run(self) -> Callable[..., Any]: ...
    @property
    def run_compiled(self) -> Callable[..., Any]: ...
