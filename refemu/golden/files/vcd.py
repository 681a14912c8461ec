"""Waveforms: the states of a stepped unit as a Value Change Dump (IEEE 1364); equal states give equal bytes.

A port or register is one vector as in the RTL, `x[127:0]` with lane 0 lowest. A unit with registers has `clk` and two
time units per event: at the first, `clk` falls and the inputs change; at the second, it rises and everything else
changes. A unit without registers has one time unit per event. Names of events are numbers in the dump, since some
readers lose string variables; a table next to the dump translates them (`View > Data Format > Translate Filter File`
of GTKWave).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from refemu.units.ports import Port, Ports
from refemu.units.value_text import values_of

EVENT = Port("event", 8, meaning="number of the event's name; see the table next to the dump")
CLOCK = Port("clk", 1, meaning="rises once per event")
COUNTER_BITS = 64


class Signal(NamedTuple):
    """A variable of the dump: its port, whether that is an input, and `wire` or `reg`."""

    port: Port
    early: bool = False
    kind: str = "wire"

    @property
    def bits(self) -> int:
        """Bits of all lanes."""
        return self.port.bits * self.port.count

    def declared(self, at: int) -> str:
        """The declaration of variable `at`."""
        several = f" [{self.bits - 1}:0]" if self.bits > 1 else ""
        return f"$var {self.kind} {self.bits} {_identifier(at)} {self.port.name}{several} $end"


def dump(unit: str, ports: Ports, states: Sequence[Any], clocked: bool = False) -> tuple[bytes, bytes]:
    """The dump and the table of event names.

    ports: of the configuration. states: at least one, of the unit's State; every port, register and integer counter
    becomes a variable. clocked: the unit has registers (timing "event").
    """
    names = list(dict.fromkeys(state.event for state in states))
    signals = [Signal(CLOCK, early=True)] * clocked + list(_signals(ports, states[0]))
    lines = ["$timescale 1 ns $end", f"$scope module {unit} $end"]
    lines += [signal.declared(at) for at, signal in enumerate(signals)]
    lines += ["$upscope $end", "$enddefinitions $end", *_changes(signals, names, states, clocked)]
    table = "".join(f"{number:02x} {name}\n" for number, name in enumerate(names))
    return ("\n".join(lines) + "\n").encode(), table.encode()


def _signals(ports: Ports, state: Any) -> Iterator[Signal]:
    yield Signal(EVENT)
    yield from (Signal(port, early=True) for port in ports.inputs)
    yield from (Signal(port) for port in ports.outputs)
    yield from (Signal(port, kind="reg") for port in ports.state)
    known = {port.name for port in ports.all} | {"event"}
    for field in dataclasses.fields(state):
        if field.name not in known and isinstance(getattr(state, field.name), int):
            yield Signal(Port(field.name, COUNTER_BITS), kind="reg")


def _changes(signals: Sequence[Signal], names: Sequence[str], states: Sequence[Any], clocked: bool) -> Iterator[str]:
    """Every time and its changes; a variable is unknown before its first change."""
    shown: list[int | None] = [None] * len(signals)
    for event, state in enumerate(states):
        for edge in range(1 + clocked):
            yield f"#{event * (1 + clocked) + edge}"
            for at, signal in enumerate(signals):
                if clocked and signal.early == bool(edge) and signal.port is not CLOCK:
                    continue
                code = edge if signal.port is CLOCK else _code(signal.port, state, names)
                if code != shown[at]:
                    shown[at] = code
                    yield f"{code}{_identifier(at)}" if signal.bits == 1 else f"b{code:b} {_identifier(at)}"
    yield f"#{len(states) * (1 + clocked)}"


def _code(port: Port, state: Any, names: Sequence[str]) -> int:
    """The port's word in `state`, lane 0 lowest, each lane two's complement of its bits."""
    if port is EVENT:
        return names.index(state.event)
    word, mask = 0, (1 << port.bits) - 1
    for at, lane in enumerate(values_of(getattr(state, port.name))):
        word |= (int(lane) & mask) << at * port.bits
    return word


def _identifier(number: int) -> str:
    """Short printable names from `!` to `~`, then two of them, ..."""
    text = chr(33 + number % 94)
    while number >= 94:
        number = number // 94 - 1
        text = chr(33 + number % 94) + text
    return text
