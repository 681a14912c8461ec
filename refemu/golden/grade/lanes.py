"""Faults of class `lanes`: neighbours swapped, one lane late, the last lane dead, lanes reversed."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults of every output with lanes."""
    for name, port in answers.ports.items():
        if port.count == 1:
            continue
        last = port.count - 1
        for lane in range(last):
            says = f"lanes {lane} and {lane + 1} of {name} are swapped"
            yield Fault(f"swapped/{name}/{lane}", says, partial(_swapped, name, lane))
        for lane in range(port.count):
            says = f"lane {lane} of {name} is that of the row before"
            yield Fault(f"frozen/{name}/{lane}", says, partial(_frozen, name, lane))
        yield Fault(f"dead/{name}/{last}", f"lane {last} of {name} is always 0", partial(_dead, name, last))
        if port.count > 2:
            yield Fault(f"reversed/{name}", f"the lanes of {name} are reversed", partial(_reversed, name))


def _swapped(name: str, lane: int, answers: Answers) -> np.ndarray:
    pair = slice(lane, lane + 2)
    return answers.differs(name, answers.outputs[name][:, pair][:, ::-1], pair)


def _frozen(name: str, lane: int, answers: Answers) -> np.ndarray:
    """A lane one row late; in the first row of a case it is right."""
    column = answers.outputs[name][:, lane : lane + 1]
    rows = np.where(answers.before < 0, np.arange(answers.rows), answers.before)
    return answers.differs(name, column[rows], slice(lane, lane + 1))


def _dead(name: str, lane: int, answers: Answers) -> np.ndarray:
    column = slice(lane, lane + 1)
    return answers.differs(name, np.zeros_like(answers.outputs[name][:, column]), column)


def _reversed(name: str, answers: Answers) -> np.ndarray:
    return answers.differs(name, answers.outputs[name][:, ::-1])
