"""Faults of class `reset`: state that is retained when a case starts."""

import dataclasses
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from refemu.golden.grade import device, slices, stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults of an event unit: all registers retained at every or every second case, and each register alone."""
    if answers.unit.timing != "event":
        return
    yield Fault("kept", "no register is reset when a case starts", device.kept)
    names = tuple(stepping.registers(answers))
    if names:
        yield Fault("missed", "every second reset is missed", partial(_missed, names), slices.tried)
    for name in names if len(names) > 1 else ():
        yield Fault(f"kept/{name}", f"{name} is not reset when a case starts", partial(_kept, name), slices.tried)


def _kept(name: str, answers: Answers) -> np.ndarray:
    return stepping.wrong(answers, start=lambda reset, last: _with(reset, last, (name,)))


def _missed(names: tuple[str, ...], answers: Answers) -> np.ndarray:
    cases = count()
    return stepping.wrong(answers, start=lambda reset, last: reset if next(cases) % 2 else _with(reset, last, names))


def _with(reset: Any, last: Any, names: tuple[str, ...]) -> Any:
    return dataclasses.replace(reset, **{name: getattr(last, name) for name in names})
