"""Waveforms: the states of a stepped unit as a Value Change Dump (IEEE 1364), the same bytes for the same states.

One time unit is one event. Names of events are numbers in the dump, for string variables are lost by some readers; the
table beside it translates them (`View > Data Format > Translate Filter File` of GTKWave).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from refemu.units.ports import Port, Ports

EVENT = Port("event", 8, meaning="number of the event's name; see the table beside the dump")
COUNTER_BITS = 64


def dump(unit: str, ports: Ports, states: Sequence[Any]) -> tuple[bytes, bytes]:
    """The dump and the table of event names.

    ports: of the configuration. states: at least one, of the unit's State; every port, register and integer counter
    becomes a variable, lanes become `<port>_<lane>`.
    """
    names = list(dict.fromkeys(state.event for state in states))
    signals = list(_signals(ports, states[0]))
    lines = ["$timescale 1 ns $end", f"$scope module {unit} $end"]
    lines += [f"$var wire {bits} {_identifier(at)} {name} $end" for at, (name, bits, _, _) in enumerate(signals)]
    lines += ["$upscope $end", "$enddefinitions $end", *_changes(signals, names, states)]
    table = "".join(f"{number:02x} {name}\n" for number, name in enumerate(names))
    return ("\n".join(lines) + "\n").encode(), table.encode()


Signal = tuple[str, int, str, int]  #: name in the dump, bits, attribute of the state, lane or -1


def _signals(ports: Ports, state: Any) -> Iterator[Signal]:
    yield EVENT.name, EVENT.bits, EVENT.name, -1
    for port in ports.all:
        if port.lanes == 1:
            yield port.name, port.bits, port.name, -1
        else:
            yield from ((f"{port.name}_{lane}", port.bits, port.name, lane) for lane in range(port.lanes))
    known = {port.name for port in ports.all} | {"event"}
    for field in dataclasses.fields(state):
        if field.name not in known and isinstance(getattr(state, field.name), int):
            yield field.name, COUNTER_BITS, field.name, -1


def _changes(signals: Sequence[Signal], names: Sequence[str], states: Sequence[Any]) -> Iterator[str]:
    """The time of every event and what changed at it; everything at the first."""
    shown: list[int | None] = [None] * len(signals)
    for time, state in enumerate(states):
        yield f"#{time}"
        for at, (_, bits, attribute, lane) in enumerate(signals):
            value = getattr(state, attribute)
            code = names.index(value) if attribute == "event" else int(value if lane < 0 else value[lane])
            code &= (1 << bits) - 1
            if code != shown[at]:
                shown[at] = code
                yield f"{code}{_identifier(at)}" if bits == 1 else f"b{code:b} {_identifier(at)}"
    yield f"#{len(states)}"


def _identifier(number: int) -> str:
    """Short printable names from `!` to `~`, then two of them, ..."""
    text = chr(33 + number % 94)
    while number >= 94:
        number = number // 94 - 1
        text = chr(33 + number % 94) + text
    return text
