"""Units declared by parameters, ports, counters and events; the constructor, State, `step` and Result follow.

A unit is a class of four parts. Annotated names with a `#:` comment are its parameters. `ports` gives its interface,
`counters` and `registers` list the other fields of a State. Each method in `events` takes the inputs of an event and
returns its changes. `Unit(unit_class=...)` completes the class; `refemu new-unit` writes one.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

import numpy as np

from refemu.arith.checks import Refused, RefusedType, plain
from refemu.arith.records import require_options
from refemu.units import comments, docstrings
from refemu.units.ports import Lanes, Port, Ports, validate_events
from refemu.units.stepping import Stepped

__all__ = ["Changes", "Combinational", "InPlace", "Sequential", "constant", "decides"]

#: changes of an event: values of outputs and registers, increments of counters; `event` if it has another name
Changes: TypeAlias = Mapping[str, Any]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class DeclaredState:
    """Base of the State of every declared unit, a frozen dataclass whose other fields are its ports and counters."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]
        event: str
        index: int

        def __getattr__(self, name: str) -> Any: ...

    def __deepcopy__(self, memo: object) -> "DeclaredState":  # immutable
        return self


def constant(method: Callable[[Any], T]) -> T:
    """Decorate a method that takes only `self`, such as `ports`: it is called once per device, then an attribute."""
    return cached_property(method)  # type: ignore[return-value]  # what an instance has


def decides(*ids: str) -> Callable[[F], F]:
    """Mark the function that takes decisions, `ids` such as "D-word-number", which variants override."""

    def mark(function: F) -> F:
        vars(function)["decisions"] = ids
        return function

    return mark


def _parameters(cls: type[Any]) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each parameter."""
    parameters: dict[str, tuple[Any, Any]] = {}
    for each in reversed(cls.__mro__):
        unit = hasattr(each, "counters") and each.__module__ != __name__
        if unit or dataclasses.is_dataclass(each):  # a unit, or a group of parameters
            hints: dict[str, Any] = inspect.get_annotations(each)
            for name, hint in hints.items():
                if typing.get_origin(hint) is not ClassVar:
                    hint = typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint
                    parameters[name] = hint, vars(each).get(name, dataclasses.MISSING)
    return parameters


@dataclass_transform(frozen_default=True, eq_default=False)
class Declared(Stepped[DeclaredState]):
    """Base of declared units. Parameters of base classes, such as groups that units share, come first."""

    #: names of the events and of their methods; if a parameter is called "merge", the method is `merge_`, which sets
    #: `event`
    events: ClassVar[tuple[str, ...]]
    does: ClassVar[Mapping[str, str]] = {}  #: event -> what it does, for events without a method of their name
    number: ClassVar[str] = "index"  #: field of the State that numbers events; another name if a port has this one
    counters: ClassVar[dict[str, str]] = {}  #: name -> what is counted
    #: name -> meaning, for fields of the State that are not ports in every configuration
    registers: ClassVar[dict[str, str]] = {}
    #: register -> largest value that it reaches, where its port has more values; can be a `constant`
    reaches: ClassVar[Mapping[str, int]] = {}
    initial: ClassVar[Mapping[str, Any]] = {}  #: fields of the State that are not 0 at reset; can be a `constant`
    State: ClassVar[type[DeclaredState]]  #: State of all configurations, made by `complete`
    _names: ClassVar[tuple[str, ...]] = ()  #: names of the parameters

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        parameters = _parameters(cls)
        if tuple(parameters) == cls._names and hasattr(cls.__base__, "events"):
            return  # a variant
        fields: list[Any] = [
            (name, hint, dataclasses.field(default=default)) for name, (hint, default) in parameters.items()
        ]
        record = dataclasses.make_dataclass("_", fields, namespace={"__post_init__": lambda self: None})
        constructor: Any = vars(record)["__init__"]
        constructor.__qualname__, constructor.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
        for name in ("__setattr__", "__eq__", "__hash__", "__repr__"):
            setattr(cls, name, getattr(Stepped, name))  # not the methods of a group, which is frozen
        cls._names = tuple(parameters)
        type.__setattr__(cls, "__init__", constructor)

    def __post_init__(self) -> None:
        if not hasattr(self, "State"):
            raise RefusedType(f"{self.name}: Unit(unit_class={type(self).__name__}, ...) must describe the class first")
        values = self.__dict__
        for name in self._names:
            values[name] = _plain(values[name], f"{self.name}: {name}")
        kind: Any = type(self)
        values["ports"] = _interface(kind, *(values[name] for name in self._names))
        self._reset()

    def _reset(self) -> None:
        """Registers at reset."""
        self.state: DeclaredState = self.reset(self.State, **self.initial)

    def check(self) -> None:
        """Reject parameters that have valid types but do not match."""

    def invariant(self, state: Any) -> bool:
        """Whether registers may have the values of a State: true at reset and after operations, for `refemu prove`."""
        return True

    def step(self, *values: Any, **named: Any) -> DeclaredState:
        """Execute one event; return the State after it."""
        if type(self).busy is not Stepped.busy:  # operations of several events
            if not values and not named and self.busy:
                return self._continue()
            names = [port.name for port in self.ports.inputs]
            return self._stepped(**dict(zip(names, values, strict=False)), **named)
        return self._open(*self.validate_event(*values, **named))

    def opens(self, *inputs: Any) -> str:
        """The event that takes these inputs."""
        return self.events[0]

    def follows(self) -> str:
        """The event without inputs, while `busy`."""
        return self.events[-1]

    def _open(self, *inputs: Any) -> DeclaredState:
        event = self.opens(*inputs)
        return self._commit(event, inputs, getattr(self, event)(*inputs))

    def _continue(self) -> DeclaredState:
        event = self.follows()
        return self._commit(event, (), getattr(self, event)())

    def _commit(self, event: str, inputs: Sequence[Any], changes: Changes) -> DeclaredState:
        """The State after an event."""
        before: dict[str, Any] = self.state.__dict__
        state = object.__new__(self.state.__class__)
        after = state.__dict__
        after |= before
        if inputs:
            for at, name in self._latches:
                after[name] = inputs[at]
            after[self.number] += 1
        after["event"] = event
        after |= changes
        if len(after) != len(before):
            unknown = ", ".join(sorted(set(changes) - set(before)))
            raise TypeError(f"{self.name}: {event} changes {unknown}, which is not an output, register or counter")
        for name in type(self).counters:  # an instance may have a parameter of that name
            if name in changes:
                after[name] += before[name]
        self.state = state
        return state

    @cached_property
    def _latches(self) -> tuple[tuple[int, str], ...]:
        """Place and name of each input."""
        return tuple(enumerate(port.name for port in self.ports.inputs))


class Combinational(Declared):
    """Base of units without registers that outlast an event; the rows of a set are independent."""


class Sequential(Declared):
    """Base of units with registers that outlast an operation; they run sequences of events from reset."""

    _broadcast = staticmethod(validate_events)

    def steps(self, *values: Any, **named: Any) -> Iterator[DeclaredState]:
        """Yield the State after every event of one device; inputs are (events,) or scalars."""
        arrays = self.validated(*values, **named)
        shape = arrays[0].shape[: arrays[0].ndim - len(self.ports.inputs[0].shape)]
        if len(shape) != 1:
            raise Refused(f"{self.name}: inputs of steps must be one sequence of events, got shape {shape}")
        yield from self.operations(arrays)


class InPlace(Sequential):
    """Base of units with memories that events write in place, through methods that other units may call.

    A State is built on access, from `_last`, the fields of the last event outside the memories, and from `_registers`.
    A list or an array in these has the first lanes of a field; the other lanes have their reset value.
    """

    def _reset(self) -> None:
        self._last: dict[str, Any] = {"event": "reset", self.number: -1}

    def _registers(self) -> dict[str, Any]:
        """Memories and counters, by the fields of a State."""
        raise NotImplementedError

    def load(self, state: DeclaredState) -> None:
        """Set memories and counters from a State, its own or that of a unit that contains this one."""
        raise NotImplementedError

    def _note(self, event: str, **shown: Any) -> None:
        """Count an event, and save what a State shows of it."""
        shown["event"], shown[self.number] = event, self._last[self.number] + 1
        self._last = shown

    @cached_property
    def _first(self) -> DeclaredState:
        """The State at reset."""
        return self.reset(self.State, **self.initial)

    @property
    def state(self) -> DeclaredState:
        """All registers and the last event."""
        state = object.__new__(self.State)
        after = state.__dict__
        after |= self._first.__dict__
        for name, value in (self._last | self._registers()).items():
            if isinstance(value, list | np.ndarray):
                held = value if isinstance(value, list) else value.ravel().tolist()
                after[name] = (*held, *after[name][len(held) :])
            else:
                after[name] = value
        return state

    @state.setter
    def state(self, state: DeclaredState) -> None:
        memories = {port.name for port in self.ports.state}
        self._last = {name: value for name, value in vars(state).items() if name not in memories}
        self.load(state)


def ports_of(unit_class: Any, config: Mapping[str, Any]) -> Ports:
    """Ports in a configuration; other parameters have their defaults."""
    values = {name: config.get(name, default) for name, default in _defaults(unit_class)}
    for name, value in values.items():
        if value is inspect.Parameter.empty:
            raise KeyError(name)
    return _interface(unit_class, *(_plain(value, f"{unit_class.name}: {name}") for name, value in values.items()))


@cache
def _defaults(unit_class: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((name, each.default) for name, each in inspect.signature(unit_class).parameters.items())


def _plain(value: Any, thing: str) -> Any:
    """A parameter as a value of Python: a tuple for a list, an int for one of NumPy."""
    if type(value) in (int, str, bool, type(None)):
        return value
    same = plain(tuple(value) if isinstance(value, list) else value)
    try:
        hash(same)
    except TypeError as error:
        raise RefusedType(f"{thing} must be a number, a word or a tuple of these, got {value!r}") from error
    return same


@lru_cache(maxsize=1024, typed=True)  # a lane has thousands of units, and each call of a compiled form makes one
def _interface(unit_class: Any, *values: Any) -> Ports:
    """Ports of a unit with these parameters; raises Refused if they do not match."""
    device = object.__new__(unit_class)
    device.__dict__.update(zip(unit_class._names, values, strict=True))
    require_options(device, unit_class.name)
    for each in reversed(unit_class.__mro__):
        if "check" in vars(each):
            vars(each)["check"](device)
    ports: Ports = device.ports
    return ports


def complete(unit_class: Any, configurations: Sequence[Ports], inputs: Sequence[inspect.Parameter]) -> None:
    """Make the State of a unit, and the signatures and texts of its constructor and of `step`.

    configurations: ports of each. inputs: of `run`.
    """
    ports: dict[str, list[Port]] = {}
    for port in (port for each in configurations for port in each.all):
        ports.setdefault(port.name, []).append(port)
    meanings = {name: text for name, text in unit_class.registers.items() if name in ports}
    _require_names(unit_class, ports, [name for name in meanings if len(ports[name]) == len(configurations)])
    several = unit_class.busy is not Stepped.busy
    fields: list[Any] = [
        ("event", str, _events(unit_class)),
        (
            unit_class.number,
            int,
            f"number of the {'operation' if several else 'event'} since reset, from 0; -1 at reset",
        ),
        *((name, _type(each[0]), meanings.get(name, each[0].meaning)) for name, each in ports.items()),
        *((name, Any, meaning) for name, meaning in unit_class.registers.items() if name not in meanings),
        *((name, int, meaning) for name, meaning in unit_class.counters.items()),
    ]
    columns = [(name, kind, dataclasses.field(metadata={"meaning": meaning})) for name, kind, meaning in fields]
    namespace = {"__doc__": "Ports after one event, and counts since reset."}
    unit_class.State = dataclasses.make_dataclass(
        "State", columns, bases=(DeclaredState,), frozen=True, namespace=namespace
    )
    unit_class.State.__module__ = unit_class.__module__  # of namespace, from Python 3.12 on make_dataclass drops it
    hints = {name: hint for name, (hint, _) in _parameters(unit_class).items()}
    unit_class.__init__.__doc__ = docstrings.of_constructor(hints, comments.of_class(unit_class))

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [each.replace(annotation=_type(ports[each.name][0])) for each in inputs]
    if several:
        taken = [each.replace(default=None) for each in taken]
    unit_class.step = FunctionType(Declared.step.__code__, globals(), "step")
    unit_class.step.__doc__, unit_class.step.__module__ = Declared.step.__doc__, unit_class.__module__
    unit_class.step.__qualname__ = f"{unit_class.__qualname__}.step"
    unit_class.step.__signature__ = inspect.Signature([this, *taken], return_annotation=unit_class.State)
    unit_class.step.__annotations__ = {each.name: each.annotation for each in taken} | {"return": unit_class.State}


def _require_names(unit_class: Any, ports: Mapping[str, object], always: Sequence[str]) -> None:
    """Reject an event without its method, and two fields of the State with one name.

    always: registers that every configuration shows as ports; one that only some show has a meaning for the others.
    """
    events = getattr(unit_class, "events", ())
    if not events:
        raise Refused(f"{unit_class.name}: events must name the methods that are events, got none")
    for name in events:
        if name not in unit_class.does and not callable(getattr(unit_class, name, None)):
            raise Refused(f"{unit_class.name}: event {name!r} needs a method of that name")
    registers = [name for name in unit_class.registers if name not in ports or name in always]
    names = ["event", unit_class.number, *ports, *registers, *unit_class.counters]
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise Refused(
            f"{unit_class.name}: ports, registers and counters must have different names, got {twice[0]!r} twice"
        )


def _events(unit_class: Any) -> str:
    """What each event does, from the first lines of their methods."""
    texts = ['"reset": no event yet']
    for name in unit_class.events:
        does = unit_class.does.get(name) or inspect.getdoc(getattr(unit_class, name)) or name
        does = does.splitlines()[0].rstrip(".")
        texts.append(f'"{name.removesuffix("_")}": {does[:1].lower()}{does[1:]}')
    return "; ".join(texts)


def _type(port: Port) -> Any:
    """Type of a port's value."""
    return Lanes if port.shape else int
