"""Runs of the unit as a different device: with variants of decisions, other arithmetic, or changed stimulus."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.explain.table import Group, Table
from refemu.golden.faults.fault import Fault, Inputs, Words, exchanged
from refemu.golden.files import fields, sets
from refemu.golden.files.sets import Golden
from refemu.golden.grade import stepping
from refemu.units import variant as other
from refemu.units.ports import Port, Ports, collect
from refemu.units.variant import Device

PACE_SECONDS = 0.01  #: for the runs that give the pace, about
UNRESET = 0.1  #: processor seconds for the cases of one device that misses resets
STEPS = 1 << 9  #: of one operation of a device with a faulty register, at most
TRIES = 64  #: evaluations of one group, at most, where a device cannot take some of its cases


def device(table: Table, guesses: Sequence[Fault]) -> Device | None:
    """The unit with the decisions of these guesses; None where there is no such device."""
    chosen = [each for guess in guesses for each in guess.variants]
    if not chosen:
        return other.right(table.unit, table.config)
    return other.device(table.unit, table.config, chosen)


def is_slow(guesses: Sequence[Fault], device: Device) -> bool:
    """Whether the device has no compiled form."""
    return device.run is not device.unit.run_compiled or any(guess.arithmetic or guess.registers for guess in guesses)


def words(table: Table, guesses: Sequence[Fault], device: Device) -> tuple[Words, np.ndarray]:
    """Answers of a device to the rows of a table, and which rows it can take: bool; in others those of the set."""
    answers = {name: array.copy() for name, array in table.want.items()}
    known, first = np.zeros(len(table.rows), np.bool_), 0
    tampered = next((guess for guess in guesses if guess.registers), None)
    if tampered is not None and reach(table, tampered) is not None:
        started = _started(table.golden, tampered)
        known = table.rows < len(started[next(iter(answers))])
        for name, array in answers.items():
            array[known] = started[name][table.rows[known]]
        return answers, known
    with _arithmetic(guesses), np.errstate(all="ignore"):
        for group in table.groups:
            seen = _seen(group, guesses)
            length = group.rows.shape[1]
            results = (
                _tampered(table, seen, group.rows.shape, tampered)
                if tampered
                else _parts(device, seen, len(group.rows), any(guess.arithmetic for guess in guesses))
            )
            for start, stop, result in results:
                rows = slice(first + start * length, first + stop * length)
                for name, port in table.ports.items():
                    codes = fields.encode(getattr(result, port.name), port, name)
                    answers[name][rows] = codes.reshape(-1, port.count)
                known[rows] = True
            first += group.rows.size
    return answers, known


def reach(table: Table, guess: Fault) -> int | None:
    """Rows at the start of the set whose answers are known of a device that misses resets; None of other devices."""
    if guess.registers is None or guess.registers.start is None:
        return None
    return len(next(iter(_started(table.golden, guess).values())))


@lru_cache(maxsize=64)
def _started(golden: Golden, guess: Fault) -> Words:
    """Answers of a device that misses resets, from the first case on, as many as it gives in UNRESET seconds."""
    unit = units.find(golden.manifest["unit"])
    config, begin = unit.config(golden.config), time.process_time()
    ports = _answered(unit.ports(config))
    device = stepping.Tampered(unit, config, guess.registers, STEPS)
    parts = [stepping.encoded(ports, [], (0, 0))]
    for first, length in _cases(golden):
        try:
            states = [state for _, state in device.operations(sets.inputs(golden, unit, first, 1, length))]
            parts.append(stepping.encoded(ports, states, (1, length)))
        except Exception:  # whatever a faulty device does
            break
        if time.process_time() - begin > UNRESET:
            break
    return {
        name: np.concatenate([part[name].reshape(-1, port.count) for part in parts]) for name, port in ports.items()
    }


def _answered(ports: Ports) -> dict[str, Port]:
    """Outputs and registers by name, as in files."""
    return {f"{kind}.{port.name}": port for kind, of in (("out", ports.outputs), ("st", ports.state)) for port in of}


def _cases(golden: Golden) -> Iterator[tuple[int, int]]:
    """First row and rows of every case."""
    for entry in golden.manifest["cases"]:
        for case in range(entry["cases"]):
            yield entry["first"] + case * entry["rows"], entry["rows"]


def _tampered(
    table: Table, inputs: Inputs, shape: tuple[int, ...], guess: Fault
) -> Iterator[tuple[int, int, SimpleNamespace]]:
    """Results of the readable unit with a register tampered with, case by case until it raises."""
    for case in range(shape[0]):
        tampered = stepping.Tampered(table.unit, table.config, guess.registers, STEPS)
        try:
            some = {name: array[case : case + 1] for name, array in inputs.items()}
            states = [state for _, state in tampered.operations(some)]
            result = SimpleNamespace(**collect(states, tuple(table.ports.values()), (1, shape[1])))
        except Exception:  # whatever a faulty device does
            return
        yield case, case + 1, result


def pace(table: Table) -> float:
    """Seconds of the readable unit for a case of the longest group, the least of several runs.

    A single run may include rare events such as an import or a garbage collection.
    """
    group = max(table.groups, key=lambda group: group.rows.shape[1]).pick(slice(0, 1))
    right = other.right(table.unit, table.config)
    least, begin = math.inf, time.process_time()
    while least == math.inf or time.process_time() - begin < PACE_SECONDS:
        start = time.process_time()
        right.evaluate(group.inputs, jit=False)
        least = min(least, time.process_time() - start)
    return least


def _seen(group: Group, guesses: Sequence[Fault]) -> Inputs:
    inputs: Inputs = group.inputs
    numbers = np.arange(len(group.rows))
    follows = np.diff(group.rows[:, 0], prepend=-2) == 1
    before = np.where(follows, numbers - 1, np.where(group.rows[:, 0] == 0, -1, numbers))
    for guess in guesses:
        if guess.stimulus is not None:
            inputs = guess.stimulus(inputs, before)
    return inputs


def _parts(device: Device, inputs: Inputs, cases: int, readable: bool) -> Iterator[tuple[int, int, Any]]:
    """Results of the cases of a group, halved while some are invalid for the device."""
    todo, tries = [(0, cases)], 0
    while todo:
        first, stop = todo.pop()
        tries += 1
        try:
            some = {name: array[first:stop] for name, array in inputs.items()}
            result = device.evaluate(some, jit=not readable)
        except (Refused, RefusedType):
            if stop - first > 1 and tries < TRIES:
                middle = (first + stop) // 2
                todo += [(middle, stop), (first, middle)]
            continue
        except Exception:  # changed arithmetic may raise anything
            if readable:
                continue
            raise
        yield first, stop, result


def _arithmetic(guesses: Sequence[Fault]) -> AbstractContextManager[Any]:
    return exchanged([change for guess in guesses for change in guess.arithmetic])
