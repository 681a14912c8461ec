"""Drawings of many events in few bytes: some complete, the others as the lines that differ."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from refemu.golden.view import encode
from refemu.units.ports import Ports
from refemu.units.unit import AnyUnit

MOST = 1000  #: drawn events; if there are more, evenly spaced ones
WHOLE = 50  #: drawings from one complete drawing to the next


class Drawn(NamedTuple):
    """Drawings of the events 0, every, 2 * every, ..."""

    stream: bytes  #: deflated JSON
    every: int


def drawn(unit: AnyUnit, ports: Ports, states: Sequence[Any], limit: int) -> Drawn | None:
    """Drawings in at most `limit` bytes; None if the unit has none, or if not even one fits.

    Every state is valid: `states` are those of a device.
    """
    from refemu.draw import registry

    if registry.of(unit) is None or not registry.of_ports(unit, ports, states[0]):
        return None
    every = -(-len(states) // MOST)
    pictures = [registry.of_ports(unit, ports, state).split("\n") for state in states[::every]]
    while pictures:
        stream = encode.deflate(json.dumps(list(_frames(pictures)), ensure_ascii=False).encode())
        if len(stream) <= limit:
            return Drawn(stream, every)
        if len(pictures) == 1:
            return None
        pictures, every = pictures[::2], 2 * every
    return None


def _frames(pictures: Sequence[Sequence[str]]) -> Any:
    """Encode drawings: a complete one is a list of lines, any other {"number of a line": line}."""
    before: Sequence[str] = ()
    for number, lines in enumerate(pictures):
        if number % WHOLE == 0 or len(lines) != len(before):
            yield list(lines)
        else:
            yield {str(at): line for at, (old, line) in enumerate(zip(before, lines, strict=True)) if old != line}
        before = lines
