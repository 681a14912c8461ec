"""Faults of class `reset`: registers that are not reset where a case starts."""

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import device, stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.stepping import Start, Tampering


def faults(answers: Answers) -> Iterator[Fault]:
    """For an event unit: no register is reset, at any case or at every second one, and each by itself."""
    if answers.unit.timing == "event":
        yield _whole()
        yield from _of(tuple(stepping.registers(answers)))


def suspected(table: Table, names: Sequence[str]) -> Iterator[Fault]:
    """The same, where the first case is right: nothing was held before it. names: of registers."""
    first = Table(table.golden, table.answer, np.zeros(1, np.int64))
    if table.unit.timing == "event" and names and not first.wrong(first.want).any():
        yield _whole()
        yield from _of(names)


def _whole() -> Fault:
    says, held = "no register is reset where a case starts", Tampering(start=partial(_kept, ()))
    return Fault("kept", says, "reset", registers=held, program=device.kept, looked_at=lambda answers: answers.rows)


def _of(names: Sequence[str]) -> Iterator[Fault]:
    if names:
        missed = Tampering(start=partial(_missed, tuple(names)))
        yield Fault("missed", "every second reset is missed", "reset", {"every": 2}, 1, registers=missed)
    for name in names if len(names) > 1 else ():
        kept = Tampering(start=partial(_kept, (name,)))
        says = f"{name} is not reset where a case starts"
        yield Fault(f"kept/{name}", says, "reset", {"port": name}, 1, registers=kept)


def _kept(names: tuple[str, ...]) -> Start:
    """names: fields that are held, () for the whole State."""
    return lambda reset, last: _with(reset, last, names) if names else last


def _missed(names: tuple[str, ...]) -> Start:
    cases = count()
    return lambda reset, last: reset if next(cases) % 2 else _with(reset, last, names)


def _with(reset: Any, last: Any, names: tuple[str, ...]) -> Any:
    return dataclasses.replace(reset, **{name: getattr(last, name) for name in names})
