"""Events of a device with their operations, as many as fit on a page."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units.unit import AnyUnit, Config


def trace(unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[int, Any]]:
    """Yield the number of the operation and the State of every event; a cycle-accurate unit has one event each."""
    device, operation = unit.unit_class(**config), 0
    for state in device.steps(**inputs):
        yield operation, state
        operation += not device.busy


def cut(
    events: Iterator[tuple[int, Any]], first: int, last: int | None, most: int, stop: Callable[[Any], bool]
) -> tuple[list[Any], list[int], int, bool]:
    """States and operations of events [first, last), at most `most`; number of all events; whether `stop` held.

    last: None for all. stop: a condition; the first event that meets it is the last. Refused: events out of range.
    """
    states, operations = list[Any](), list[int]()
    total, stopped = 0, False
    for operation, state in events:
        if first <= total and (last is None or total < last) and len(states) < most:
            states.append(state)
            operations.append(operation)
        total += 1
        if stop(state):
            stopped = True
            break
    if first >= total or (last or 0) > total:
        asked = f"{first}:{'' if last is None else last}"
        raise Refused(f"step: --events must be in 0:{total}, got {asked}")
    return states, operations, total, stopped
