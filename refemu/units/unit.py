"""What every unit states about itself: ports, configurations, cases, and the shapes of states and results.

The vector writer, the hex export, `refemu list`, `refemu step` and the test strategies read these descriptors only.
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, plain, require_integers, require_range
from refemu.arith.integers import limits
from refemu.arith.records import parameters
from refemu.formats import html
from refemu.units import unit_parts

KINDS = ("paper", "edge", "random", "exhaustive", "model")  #: of golden cases


@parameters
class Port:
    """One port or register: `lanes` fields of `bits` bits, lane 0 first (in the least significant bits of a word)."""

    name: str  #: lower case; no keyword of Verilog, SystemVerilog or C
    bits: int  #: of one lane, 1 to 64
    lanes: int = 1
    signed: bool = False  #: two's complement in `bits` bits
    encoding: str = ""  #: what a field means: "uint", "int", "f16", "f32" or the name of a format; "" = by `signed`
    meaning: str = ""  #: one line for people
    least: int | None = None  #: smallest value of a lane that is admitted, if that is not what the bits say
    most: int | None = None  #: largest one

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64 or self.lanes < 1:
            raise Refused(
                f"Port {self.name}: bits must be in [1, 64] and lanes at least 1, got {self.bits}, {self.lanes}"
            )

    @property
    def kind(self) -> str:
        """The encoding, spelled out."""
        return self.encoding or ("int" if self.signed else "uint")

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of one lane."""
        low, high = limits(self.bits, self.signed)
        return low if self.least is None else self.least, high if self.most is None else self.most

    @property
    def dtype(self) -> np.dtype:
        """The narrowest integer dtype of the port's signedness that holds one lane."""
        return np.dtype(f"{'i' if self.signed else 'u'}{next(size for size in (1, 2, 4, 8) if self.bits <= 8 * size)}")

    @property
    def result_dtype(self) -> np.dtype:
        """The dtype of the port in a Result: bool for a flag of one bit, else `dtype`."""
        return np.dtype(np.bool_) if self.bits == 1 else self.dtype

    def admit(self, values: Any, unit: str) -> np.ndarray:
        """`values` as an array of the port's dtype, with the axis of lanes last if there are several.

        unit: what a refusal starts with. Refused: a dtype that is not an integer one, a wrong number of lanes, a value
        outside the port's bits, each with the port's name and the first bad index.
        """
        array = require_integers(values, f"{unit}.{self.name}")
        if self.lanes > 1 and (array.ndim == 0 or array.shape[-1] != self.lanes):
            raise RefusedType(
                f"{unit}.{self.name}: the last axis must hold {self.lanes} lanes, got shape {array.shape}"
            )
        low, high = self.limits
        try:
            require_range(array, low, high + 1, unit, self.name)
        except Refused as error:
            raise Refused(f"{error}{unit_parts.as_float(self, array)}") from None
        return array.astype(self.dtype, copy=False)

    def admit_one(self, value: Any, unit: str) -> Any:
        """The value of one event: a Python int, or a tuple of `lanes` of them. Refuses what `admit` refuses."""
        low, high = self.limits
        if self.lanes == 1 and type(value) is int and low <= value <= high:
            return value  # what a loop of steps passes: no array is made
        array = self.admit(value, unit)
        if array.ndim != (self.lanes > 1):
            raise RefusedType(f"{unit}.{self.name}: one event is needed, got shape {array.shape}")
        return tuple(array.tolist()) if self.lanes > 1 else int(array)


@dataclass(frozen=True)
class Ports:
    """Ports of a unit in one configuration, in the order of the packed words (first port lowest)."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[Port, ...] = ()  #: registers after the event that are exported as `st.<name>`

    @property
    def all(self) -> tuple[Port, ...]:
        """Inputs, outputs, registers."""
        return self.inputs + self.outputs + self.state


def admit(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """One array per port, each of the port's dtype, all of one shape (and the axis of lanes, where a port has several).

    values: integers or integer arrays, one per port, broadcast against each other without their lanes. The results may
    be read-only views. Refuses what `Port.admit` refuses, and shapes that do not fit each other.
    """
    arrays = [port.admit(value, unit) for port, value in zip(ports, values, strict=True)]
    shapes = [array.shape[:-1] if port.lanes > 1 else array.shape for port, array in zip(ports, arrays, strict=True)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        told = ", ".join(f"{port.name} {shape}" for port, shape in zip(ports, shapes, strict=True))
        raise Refused(f"{unit}: the ports' shapes do not fit each other: {told}") from None
    return [
        np.broadcast_to(array, shape + ((port.lanes,) if port.lanes > 1 else ()))
        for port, array in zip(ports, arrays, strict=True)
    ]


def collect(states: Sequence[Any], ports: Sequence[Port], shape: tuple[int, ...]) -> dict[str, Any]:
    """What `ports` carried in `states`, by name: arrays of `shape` (and lanes) in the ports' result dtypes."""
    return {
        port.name: np.array([getattr(state, port.name) for state in states], port.result_dtype).reshape(
            shape + ((port.lanes,) if port.lanes > 1 else ())
        )
        for port in ports
    }


def admit_events(unit: str, ports: Sequence[Port], values: Sequence[Any]) -> list[np.ndarray]:
    """As `admit`, for units with registers: refused unless some port has an axis, the sequence of events."""
    arrays = admit(unit, ports, values)
    if arrays[0].ndim - (ports[0].lanes > 1) < 1:
        raise RefusedType(f"{unit}: at least one port needs an axis, the sequence of events; all are scalars")
    return arrays


class Config(Mapping[str, Any]):
    """Parameters of a unit by keyword, frozen: `Config(normal="int4", outlier=(2, 1))`."""

    def __init__(self, **parameters: Any) -> None:
        self._parameters = {name: plain(value) for name, value in sorted(parameters.items())}

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __hash__(self) -> int:
        return tuple(self._parameters.items()).__hash__()

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._parameters.items())})"


@dataclass(frozen=True)
class Flag:
    """One bit of a row's flags and why such rows exist."""

    bit: int
    why: str


@dataclass(frozen=True)
class Alternative:
    """Another answer to a decision. `apply` makes the configuration of a device that took it."""

    decision: str  #: id, "D-olive-33"
    says: str  #: "overflow is 'saturate'"
    apply: Callable[["Config"], "Config"]


def choices(decision: str, parameter: str, *values: Any) -> tuple[Alternative, ...]:
    """Alternatives that set one parameter of the configuration to each of `values`."""
    return tuple(
        Alternative(decision, f"{parameter} is {value!r}", partial(_with, parameter, value)) for value in values
    )


def _with(parameter: str, value: Any, config: "Config") -> "Config":
    return Config(**{**config, parameter: value})


@dataclass(frozen=True, eq=False)
class Cases:
    """A block of golden cases of one kind that share a reason.

    inputs: one array per input port. Combinational units: (cases,) + lanes. Event units: (cases, rows) + lanes, each
    case starting from reset. A port of one lane has no lane axis. Values lie in the port's range.
    """

    kind: str  #: one of KINDS
    why: str  #: one line: why these cases exist
    inputs: Mapping[str, np.ndarray]
    decision: str = ""  #: id of the decision that the answer follows, if it does
    source: Mapping[str, Any] = field(default_factory=dict)  #: for model cases: layer, tensor, tokens, ...
    config: str = ""  #: for model cases: name of the configuration in the unit's `configs`


@dataclass(frozen=True, eq=False)
class Result:
    """Base of every `run` result: outputs as arrays, counters as int, all compared by `equals`."""

    def equals(self, other: object) -> bool:
        """Equal type, and every field equal in dtype, shape and content."""
        if type(self) is not type(other):
            return False
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    return bool(a.equals(b) if hasattr(a, "equals") else a == b)


def lanes(values: Sequence[int]) -> Any:
    """The value of a port: a tuple, or an int if it has one lane."""
    return tuple(values) if len(values) > 1 else values[0]


def fields(value: Any) -> tuple[int, ...]:
    """The lanes of a port's value: the inverse of `lanes`."""
    return value if isinstance(value, tuple) else (value,)


def _plain_integer(value: Any) -> Any:
    """`plain`, but for floats: among the arguments of a run these are values, and their dtype counts."""
    return value if isinstance(value, np.floating) else plain(value)


def _admitting(admit: Callable[[Any], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arguments that went through `admit`."""

    @wraps(function)
    def wrapped(*values: Any, **named: Any) -> Any:
        return function(*map(admit, values), **{name: admit(value) for name, value in named.items()})

    return wrapped


class Stepped:
    """Base of the stepping classes: one immutable State, replaced as a whole when an event has happened.

    So a call that raises leaves the state as it was, and an event reads committed registers only.
    """

    name: str  #: of the unit, as refusals start
    ports: Ports
    state: Any  #: the module's State: event, index, every port and register under its own name, counters

    def __init_subclass__(cls) -> None:
        """Parameters that NumPy made, as `bits=np.int64(4)`, reach `__init__` as Python's own."""
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _admitting(plain, vars(cls)["__init__"]))  # noqa: B010  mypy: not by `=`

    @property
    def busy(self) -> bool:
        """Whether the operation begun last has events left: then `step()` takes no inputs and goes on with it."""
        return False

    def snapshot(self) -> Any:
        """Every register, port and counter after the last event: frozen, comparable, hashable."""
        return self.state

    def restore(self, state: Any) -> None:
        """Make every register what it was when `state` was taken; refuses a State that is not this unit's."""
        if type(state) is not type(self.state):
            raise RefusedType(f"{self.name}: restore takes a State of this unit, got {type(state).__name__}")
        for port in self.ports.all:
            port.admit_one(getattr(state, port.name), self.name)
        self.state = state

    def _repr_html_(self) -> str:
        drawing = html.text(self.draw(self.state)) if hasattr(self, "draw") else ""
        return unit_parts.to_html(repr(self), self.ports, [self.state]) + drawing

    def accept(self, *values: Any) -> list[Any]:
        """The inputs of one event as Python ints (tuples for lanes), in the ports' order, each checked."""
        return [port.admit_one(value, self.name) for port, value in zip(self.ports.inputs, values, strict=True)]

    def operations(self, arrays: Sequence[np.ndarray]) -> Iterator[Any]:
        """Yield the State after every event of every operation, in C order; for units whose operations have several.

        arrays: one per input port, as `admit` gives them: of one shape, and the axis of lanes where a port has several.
        """
        flat = [
            array.reshape(-1, port.lanes) if port.lanes > 1 else array.reshape(-1)
            for array, port in zip(arrays, self.ports.inputs, strict=True)
        ]
        step: Callable[..., Any] = getattr(self, "step")  # noqa: B009  each unit has its own arguments
        for inputs in zip(*(array.tolist() for array in flat), strict=True):
            yield step(*inputs)
            while self.busy:
                yield step()


@dataclass(frozen=True, repr=False)
class Unit:
    """Descriptor of a hardware block; the last statement of its module is `UNIT = Unit(...)`."""

    name: str
    paper: str  #: "olive §4.2, Fig. 6b"
    meaning: str  #: one line for people
    configs: Mapping[str, Config]  #: ready configurations; each is a golden set of its own
    ports: Callable[[Config], Ports]
    run: Callable[..., Any]  #: run(**inputs, **config) -> Result whose fields are named as the output and state ports
    twin: str  #: "module:function" of the compiled twin, imported on first use
    unit_class: type  #: unit_class(**config).steps(**inputs) yields States
    #: cases(config, kind, seed); "random" takes a range of seeds too: what each draws, in turn; "model" comes from taps
    cases: Callable[[Config, str, int | range], Iterable[Cases]]
    arguments: Mapping[str, str] = field(default_factory=dict)  #: input port -> argument of `run`, where they differ
    timing: str = "combinational"  #: or "event": rows of a case are consecutive steps from reset
    version: int = 1  #: +1 whenever some input gives another output
    flags: Mapping[str, Flag] = field(default_factory=dict)
    mark: Callable[..., Mapping[str, np.ndarray]] | None = None  #: mark(config, inputs, result) -> flag -> bool (rows,)
    #: care(config, inputs, result) -> "out.x" -> bools: which lanes a device must answer as this unit does
    care: Callable[..., Mapping[str, np.ndarray]] | None = None
    #: "out.x" -> which bits of a lane `care` may leave open one by one, and why; its mask is then one of bit patterns
    partial_care: Mapping[str, str] = field(default_factory=dict)
    legal: Callable[..., Mapping[str, np.ndarray]] | None = None  #: legal(config, inputs) -> inputs that `run` takes
    alternatives: Sequence[Alternative] = ()  #: what `refemu diff --explain` tries: other answers to decisions

    @cached_property
    def run_jit(self) -> Callable[..., Any]:
        """The compiled twin: same arguments, same Result. Imports numba."""
        module, function = self.twin.split(":")
        return _admitting(_plain_integer, getattr(importlib.import_module(module), function))

    def evaluate(self, config: Mapping[str, Any], inputs: Mapping[str, Any], jit: bool = True) -> Any:
        """The Result for `inputs`, one array per input port by name; by the compiled twin or the readable unit.

        Combinational units: any shape. Event units: the last axis (before lanes) is the sequence of events, leading
        axes are devices that start from reset. Refuses a missing or unknown port.
        """
        run = self.run_jit if jit else self.run
        return run(**self._named(config, inputs), **Config(**config))

    def trace(self, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the State after every event of one case, by the readable unit; `inputs` as for `evaluate`."""
        return iter(self.unit_class(**config).steps(**self._named(config, inputs)))

    def _named(self, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        ports = [port.name for port in self.ports(Config(**config)).inputs]
        if set(ports) != set(inputs):
            raise Refused(f"{self.name}: inputs must be {', '.join(ports)}, got {', '.join(inputs) or 'none'}")
        return {self.arguments.get(port, port): inputs[port] for port in ports}

    def __repr__(self) -> str:
        return f"<Unit {self.name}: {self.meaning}>"
