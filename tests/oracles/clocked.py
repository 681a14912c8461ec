"""Rows of a clocked machine that executes one event of an operation per edge, from what each event changes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Change = tuple[Mapping[str, Any], Mapping[str, int]]  #: registers that an event writes, and what it adds to counters


def rows(
    edges: Iterable[tuple[int, Any]], events: Callable[[Any], Iterable[Change]], reset: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Registers after every edge, with `phase`, `busy`, `valid` and all counters so far.

    edges: start and operands. events: of the operation with these operands. reset: registers and counters.
    """
    state, left, phase = dict(reset), [], 0
    for start, operands in edges:
        active = bool(left) or start == 1
        if active:
            phase = phase + 1 if left else 0
            left = left or list(events(operands))
            written, added = left.pop(0)
            state |= written
            state |= {name: state[name] + more for name, more in added.items()}
        yield {**state, "phase": phase, "busy": int(bool(left)), "valid": int(active and not left)}
