"""Ports, registers and counters of a sequence of states, by group, with their value after every event."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from refemu.units.ports import Lanes, Port, Ports

Member = tuple[str, Port, list[Any]]  #: group, port and its value after every event


def members(ports: Ports, states: Sequence[Any], registers: Sequence[Port] = ()) -> Iterator[Member]:
    """Every port, register and counter; a register that is not a port has the name of its field.

    A field that is always None is a port that this configuration lacks. registers: a device's description of the
    registers that are not ports; others are numbers.
    """
    first = states[0]
    for group, listed in (("inputs", ports.inputs), ("outputs", ports.outputs), ("state", ports.state)):
        yield from ((group, port, [getattr(state, port.name) for state in states]) for port in listed)
    described = {port.name: port for port in registers}
    known = {port.name for port in ports.all} | {"event", "index"}
    others = [field.name for field in dataclasses.fields(first) if field.name not in known]
    others = [name for name in others if any(getattr(state, name) is not None for state in states)]
    for counts in (False, True):
        for name in others:
            if isinstance(getattr(first, name), int) == counts:
                values = [flat(getattr(state, name)) for state in states]
                yield ("counts" if counts else "state"), described.get(name, Port(name, 64, signed=True)), values


def registers_of(device: Any) -> tuple[Port, ...]:
    """A device's description of its registers that are not ports; () for most devices."""
    return tuple(getattr(device, "stage_ports", ()))


def flat(value: Any) -> int | Lanes:
    """The numbers of a register that is not a port, as one flat tuple; an int is unchanged."""
    return value if isinstance(value, int) else tuple(_leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, tuple | list | bytes):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
