"""Rules that a descriptor must follow to be registered; an error names the broken rule.

Rules that need a run are checked later, when a set is made: cases within their ports, an equal compiled form.
"""

import contextlib
import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from refemu.arith.checks import Refused, RefusedType
from refemu.units.config import Config
from refemu.units.declaration import Declared
from refemu.units.ports import Ports
from refemu.units.stepping import Stepped
from refemu.units.unit import AnyUnit, Unit

NAME = re.compile(r"[a-z][a-z0-9_]*")
CONFIGURATION = re.compile(r"[a-z0-9][a-z0-9_]*")
FLAGS = 8  #: bits of the flags word


def require(unit: Any) -> AnyUnit:
    """Check a unit and return it; raises Refused for an inconsistent descriptor, RefusedType if it is not a Unit."""
    if not isinstance(unit, Unit):
        raise RefusedType(f"unit: must be a Unit, got {type(unit).__name__}")
    if not NAME.fullmatch(unit.name):
        raise Refused(f"unit: the name must be a lower case word, got {unit.name!r}")
    for fault in _faults(unit):
        raise Refused(f"{unit.name}: {fault}")
    return unit


def _faults(unit: AnyUnit) -> Iterator[str]:
    made_by: object = unit.unit_class
    if not (isinstance(made_by, type) and issubclass(made_by, Stepped)):
        yield f"unit_class must derive from Stepped, got {made_by!r}"
        return
    if getattr(unit.unit_class, "name", None) != unit.name:
        yield f"unit_class.name must be {unit.name!r}, got {getattr(unit.unit_class, 'name', None)!r}"
    if not (unit.meaning and unit.paper):
        yield f"meaning and paper must not be empty, got {unit.meaning!r} and {unit.paper!r}"
    bits = [flag.bit for flag in unit.flags.values()]
    if len(set(bits)) < len(bits) or not set(bits) <= set(range(FLAGS)):
        yield f"flags must have different bits below {FLAGS}, got {bits}"
    for name, config in unit.configs.items():
        yield from (f"configuration {name}: {fault}" for fault in _faults_of(unit, name, config))


def _faults_of(unit: AnyUnit, name: str, config: Config) -> Iterator[str]:
    if not CONFIGURATION.fullmatch(name):
        yield "its name must be a lower case word"
    ports = unit.ports(config)
    yield from _faults_of_ports(ports)
    unknown = sorted(set(config) - set(inspect.signature(unit.unit_class).parameters))
    if unknown:
        yield f"the parameters must be those of {unit.unit_class.__name__}, got {unknown[0]}"
        return
    try:
        device = unit.unit_class(**config)
    except (Refused, RefusedType, TypeError) as error:
        yield f"the constructor rejects it: {error}"
        return
    yield from _faults_of_events(device, [port.name for port in ports.inputs])
    if device.ports != ports:
        yield "the device's ports must be those of the descriptor"
    yield from _faults_of_state(unit, ports, device)


def _faults_of_events(device: Stepped[Any], inputs: Sequence[str]) -> Iterator[str]:
    """Check that an event that may open an operation takes every input, a later one none, and `busy` is a property."""
    if not isinstance(inspect.getattr_static(device, "busy"), property | cached_property):
        yield "`busy` must be a property, got a method; write @property above it"
    if not isinstance(device, Declared):
        return
    kind = type(device)
    if (kind._open, kind._continue) != (Declared._open, Declared._continue):
        return  # the unit calls its events
    several, chooses = kind.busy is not Stepped.busy, kind.follows is not Declared.follows
    first = device.events if kind.opens is not Declared.opens else device.events[:1]
    last = () if not several else device.events if chooses else device.events[-1:]
    opening = ", ".join(inputs)
    for events, count, rule in (
        (first, len(inputs), f"opens an operation must take all inputs by position, {opening}"),
        (last, 0, "continues an operation must take no arguments; it reads self.state"),
    ):
        takes = {name: inspect.signature(getattr(device, name)) for name in events if name not in device.does}
        if takes and not any(_takes(each, count) for each in takes.values()):
            yield f"the event that {rule}, got {'; '.join(f'{name}{each}' for name, each in takes.items())}"


def _takes(method: inspect.Signature, count: int) -> bool:
    """Whether a method can be called with `count` values by position."""
    with contextlib.suppress(TypeError):
        return bool(method.bind(*range(count)))
    return False


def _faults_of_ports(ports: Ports) -> Iterator[str]:
    if not ports.inputs or not ports.outputs:
        yield "ports must have at least one input and one output, got none"
    for port, count in Counter(port.name for port in ports.all).items():
        if not NAME.fullmatch(port):
            yield f"a port name must be a lower case word, got {port!r}"
        if count > 1:
            yield f"port names must be unique, got {port!r} {count} times"


def _faults_of_state(unit: AnyUnit, ports: Ports, device: Stepped[Any]) -> Iterator[str]:
    needed = {"event", "index", *(port.name for port in ports.all), *unit.counters}
    present = {field.name for field in dataclasses.fields(device.snapshot())}
    if lost := sorted(needed - present):
        yield f"the State must have a field for each port, got none for {lost[0]}"
