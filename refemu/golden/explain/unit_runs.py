"""Runs of the unit as a different device: with variants of decisions, other arithmetic, or changed stimulus."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.explain.guess import Guess, Inputs
from refemu.golden.explain.table import Group, Table, Words
from refemu.golden.files import fields
from refemu.golden.grade import rounding
from refemu.units import variant as other
from refemu.units.variant import Device

PACE_SECONDS = 0.01  #: time of the runs that measure the pace, about
TRIES = 64  #: most evaluations of a group if some of its cases are invalid for a device


def device(table: Table, guesses: Sequence[Guess]) -> Device | None:
    """The unit with the decisions of these guesses; None if there is no such device."""
    chosen = [guess.variant for guess in guesses if guess.variant is not None]
    if not chosen:
        return other.right(table.unit, table.config)
    return other.device(table.unit, table.config, chosen)


def is_slow(guesses: Sequence[Guess], device: Device) -> bool:
    """Whether the device has no compiled form."""
    return device.run is not device.unit.run_compiled or any(guess.arithmetic is not None for guess in guesses)


def words(table: Table, guesses: Sequence[Guess], device: Device) -> tuple[Words, np.ndarray]:
    """Answers of a device to the rows of a table, and the valid rows: bool; other rows have the set's answers."""
    answers = {name: array.copy() for name, array in table.want.items()}
    known, first = np.zeros(len(table.rows), np.bool_), 0
    with _arithmetic(guesses), np.errstate(all="ignore"):
        for number, group in enumerate(table.groups):
            seen = _seen(table, number, group, guesses)
            for start, stop, result in _parts(device, seen, len(group.rows), any(g.arithmetic for g in guesses)):
                length = group.rows.shape[1]
                rows = slice(first + start * length, first + stop * length)
                for name, port in table.ports.items():
                    codes = fields.encode(getattr(result, port.name), port, name)
                    answers[name][rows] = codes.reshape(-1, port.count)
                known[rows] = True
            first += group.rows.size
    return answers, known


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


def _seen(table: Table, number: int, group: Group, guesses: Sequence[Guess]) -> Inputs:
    inputs: Inputs = group.inputs
    for guess in guesses:
        if guess.stimulus is not None:
            inputs = guess.stimulus(table, number, inputs)
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


def _arithmetic(guesses: Sequence[Guess]) -> AbstractContextManager[Any]:
    changes: list[tuple[Any, str, Callable[..., Any]]] = [
        change for guess in guesses if guess.arithmetic is not None for change in guess.arithmetic
    ]
    return rounding.exchanged(changes) if changes else nullcontext()
