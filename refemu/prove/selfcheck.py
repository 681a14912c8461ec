"""The self-check of a lift: golden cases and drawn rows through its terms, equal to the compiled form of the unit."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.prove import terms
from refemu.prove.lift import Lift, name_of
from refemu.units.declaration import Sequential
from refemu.units.ports import Port
from refemu.units.stimuli import random_inputs
from refemu.units.unit import Config, Kind

DRAWN = 10_000  #: rows in addition to the golden cases
EVENTS = 50  #: events of a drawn case of a sequential unit
KINDS: tuple[Kind, ...] = ("paper", "edge", "random")
SEED = 0


class Disagrees(Exception):
    """Terms and unit differ: an error in refemu."""


def check(lift: Lift, drawn: int = DRAWN, cases: bool = True) -> int:
    """Compare the terms with the compiled form; return the number of rows. Raises Disagrees at the first difference.

    drawn: rows in addition to the golden cases. cases: whether to check these.
    """
    rows = 0
    for what, inputs in _stimuli(lift, drawn, cases):
        rows += _checked(lift, what, inputs)
    if rows < min(drawn, DRAWN):
        raise Disagrees(f"{lift.unit.name}: only {rows} of the drawn rows are legal")
    return rows


def _stimuli(lift: Lift, drawn: int, cases: bool) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    unit, config, ports = lift.unit, Config(**lift.config), lift.device.ports.inputs
    if cases:
        for kind in KINDS:
            for block in unit.stimuli(config, kind, SEED):
                yield f"{kind} case", dict(block.inputs)
    shape = (drawn // EVENTS, EVENTS) if isinstance(lift.device, Sequential) else (drawn,)
    left, seed = drawn, SEED
    while left > 0 and seed < SEED + 20:
        inputs = random_inputs(unit.name, ports, shape, seed)
        legal = unit.legal(config, inputs) if unit.legal else inputs
        try:
            unit.evaluate(config, legal)
            yield "drawn row", dict(legal)
            left -= prod(shape)
        except Refused:
            kept = _legal_rows(lift, legal)
            if len(kept):
                yield "drawn row", {name: array[kept] for name, array in legal.items()}
                left -= len(kept) * prod(shape[1:])
        seed += 1


def _legal_rows(lift: Lift, inputs: Mapping[str, np.ndarray]) -> list[int]:
    """Cases that the unit accepts, one by one."""
    kept = []
    for row in range(len(next(iter(inputs.values())))):
        try:
            lift.unit.evaluate(lift.config, {name: array[row : row + 1] for name, array in inputs.items()})
        except Refused:
            continue
        kept.append(row)
    return kept


def words(port: Port, array: np.ndarray, prefix: str = "") -> dict[str, np.ndarray]:
    """Unsigned values of each lane, by the names of variables."""
    flat = np.asarray(array).reshape(-1, port.count).astype(object if port.bits > 62 else np.int64)
    mask = (1 << port.bits) - 1
    return {name_of(port, lane, prefix): (flat[:, lane] & mask).astype(np.uint64) for lane in range(port.count)}


def variables(lift: Lift, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Values of the variables of a lift for rows: inputs, and registers before each event."""
    ports = lift.device.ports
    answer: dict[str, np.ndarray] = {}
    for port in ports.inputs:
        answer |= words(port, inputs[port.name])
    if not lift.before:
        return answer
    for port in ports.outputs + ports.state:
        after = np.asarray(getattr(result, port.name))
        first = np.broadcast_to(np.asarray(getattr(lift.device.state, port.name)), (len(after), 1, *port.shape))
        answer |= words(port, np.concatenate([first.astype(after.dtype), after[:, :-1]], axis=1), "q_")
    for port in ports.inputs:
        array = np.asarray(inputs[port.name])
        first = np.broadcast_to(np.asarray(getattr(lift.device.state, port.name)), (len(array), 1, *port.shape))
        answer |= words(port, np.concatenate([first.astype(array.dtype), array[:, :-1]], axis=1), "q_")
    count = len(next(iter(answer.values())))
    events = len(np.asarray(inputs[ports.inputs[0].name])[0])
    answer[f"q_{lift.device.number}"] = np.tile((np.arange(events) > 0).astype(np.uint64), count // events)
    answer["q_number"] = np.zeros(count, np.uint64)
    return answer | {
        lanes[0].name: np.zeros(count, np.uint64) for lanes in lift.before.values() if lanes[0].name not in answer
    }


def _checked(lift: Lift, what: str, inputs: Mapping[str, np.ndarray]) -> int:
    unit, ports = lift.unit, lift.device.ports
    result = unit.evaluate(lift.config, inputs)
    rows = variables(lift, inputs, result)
    count = len(next(iter(rows.values())))
    demands = [condition for condition, _ in lift.demands]
    values = terms.evaluate([lift.legal, *demands, *lift.roots], rows, count)
    names = ["legality", *(f"demand {text}" for _, text in lift.demands)]
    for condition, name in zip(values, names, strict=False):
        if not condition.all():
            raise Disagrees(f"{unit.name}: {what} {int(np.argmin(condition))}: {name} does not hold")
    answer = iter(values[1 + len(demands) :])
    for port in ports.outputs + ports.state:
        expected = words(port, getattr(result, port.name))
        for lane in range(port.count):
            name, got = name_of(port, lane), next(answer)
            differs = got.astype(np.uint64) != expected[name]
            if differs.any():
                row = int(np.argmax(differs))
                raise Disagrees(
                    f"{unit.name}: {what} {row}: {name} is {int(got[row]):#x} by the terms, "
                    f"{int(expected[name][row]):#x} by the compiled form"
                )
    return count


__all__ = ["DRAWN", "Disagrees", "check", "variables", "words"]
