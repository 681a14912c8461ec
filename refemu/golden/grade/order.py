"""Faults of class `order`: answers a row late, a row early, or neighbouring rows swapped."""

from collections.abc import Iterator

import numpy as np

from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults of all outputs together, within a case, or in a combinational unit's stream of rows."""
    yield Fault("late", "answers come a row late, zeros first", _late)
    yield Fault("early", "answers come a row early, the last of a case is unchanged", _early)
    yield Fault("swapped", "the answers of every two rows are swapped", _swapped)


def _late(answers: Answers) -> np.ndarray:
    wrong = np.zeros(answers.rows, np.bool_)
    for name, codes in answers.outputs.items():
        late = np.where((answers.before < 0)[:, None], codes.dtype.type(0), codes[answers.before])
        wrong |= answers.differs(name, late)
    return wrong


def _early(answers: Answers) -> np.ndarray:
    behind = np.arange(answers.rows)
    followed = np.flatnonzero(answers.before >= 0)
    behind[answers.before[followed]] = followed
    return _moved(answers, behind)


def _swapped(answers: Answers) -> np.ndarray:
    """Answers with the second, fourth, ... row of a case exchanged with the row before it."""
    rows, partner = np.arange(answers.rows), np.arange(answers.rows)
    starts = np.maximum.accumulate(np.where(answers.before < 0, rows, 0))
    second = rows[(rows - starts) % 2 == 1]
    partner[second], partner[second - 1] = second - 1, second
    return _moved(answers, partner)


def _moved(answers: Answers, rows: np.ndarray) -> np.ndarray:
    """Answers in which every row has the answer of row `rows[row]`."""
    wrong = np.zeros(answers.rows, np.bool_)
    for name, codes in answers.outputs.items():
        wrong |= answers.differs(name, codes[rows])
    return wrong
