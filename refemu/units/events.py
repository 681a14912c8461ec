"""Tables of events, as text for `refemu step` and as HTML for notebooks."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import first_index


def cell(port: Any, value: Any, most: int = 1 << 62) -> str:
    """Text of a port's value: numbers in decimal, codes in hex; at most `most` lanes, lane 0 first."""
    lanes = value if isinstance(value, tuple) else (value,)
    rest = " …" if len(lanes) > most else ""
    if port.kind in ("uint", "int"):
        return " ".join(str(int(lane)) for lane in lanes[:most]) + rest
    mask, digits = (1 << port.bits) - 1, -(-port.bits // 4)
    return " ".join(f"{int(lane) & mask:0{digits}x}" for lane in lanes[:most]) + rest


def table(ports: Any, states: Sequence[Any], most: int = 1 << 62) -> tuple[list[str], list[list[Any]]]:
    """Column names, and a row per state: its number, the event, every port and register, every counter.

    ports: those of the configuration (`Unit.ports`). states: at least one, of one unit. most: lanes in a cell.
    """
    known = {port.name for port in ports.all} | {"event", "index"}
    counters = [
        field.name
        for field in dataclasses.fields(states[0])
        if field.name not in known and isinstance(getattr(states[0], field.name), int)
    ]
    rows = [
        [
            number,
            state.event,
            *(cell(port, getattr(state, port.name), most) for port in ports.all),
            *(getattr(state, counter) for counter in counters),
        ]
        for number, state in enumerate(states)
    ]
    return ["#", "event", *(port.name for port in ports.all), *counters], rows


def to_html(title: str, ports: Any, states: Sequence[Any]) -> str:
    """HTML of `table`, without the column `#` if there is one state."""
    from refemu.formats import html

    head, rows = table(ports, states, html.MOST)
    first = int(len(rows) == 1)
    return html.table(title, head[first:], [row[first:] for row in rows])


@dataclasses.dataclass(frozen=True, eq=False)
class Events:
    """States of one device as a table with a line for each, as text or in a notebook."""

    ports: Any  #: `device.ports`, or `Unit.ports(config)`
    states: Sequence[Any]

    def __repr__(self) -> str:
        head, rows = table(self.ports, self.states)
        lines = [head, *([str(item) for item in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)

    def _repr_html_(self) -> str:
        return to_html(f"{len(self.states)} events", self.ports, self.states)


def as_float(port: Any, values: np.ndarray) -> str:
    """The end of an error message: the first of `values` outside the limits of a port of float patterns, as a float.

    Empty for other ports, and for a value that is not a pattern.
    """
    dtypes: dict[str, tuple[type, type]] = {"f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32)}
    low, high = port.limits
    first = int(values[first_index((values < low) | (values > high))])
    if port.encoding not in dtypes or not 0 <= first < 1 << port.bits:
        return ""
    word, real = dtypes[port.encoding]
    value, least, most = np.array([first, low, high], word).view(real).tolist()
    return f": {value!r} is not from {least!r} to {most!r}"
