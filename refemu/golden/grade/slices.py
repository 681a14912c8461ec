"""A stimulus in parts that grow: readable units are slow, and most faults show in the first cases."""

import sys
from collections.abc import Callable, Iterator

import numpy as np

from refemu.golden.grade.answers import Answers
from refemu.golden.make.rows import Block

FIRST, GROWTH = 8, 8  #: cases of the first part, and the growth of each next part
MOST = 1 << 15  #: values of a stimulus that are tried, about
PART = 1 << 15  #: cases of a part, at most: the readable unit has a State for each
WIDE = 256  #: most values that a case counts as


def parts(answers: Answers, most: int | None = None) -> Iterator[tuple[int, Block]]:
    """First row and cases of parts of the stimulus, small ones first, up to `most` values.

    The blocks of a pool share them evenly.
    """
    first, size, left = 0, FIRST, MOST if most is None else most
    if answers.inputs:  # each counts
        left = sys.maxsize
    for number, block in enumerate(answers.blocks):
        cases, rows = block.shape
        start, each = 0, _values(block)
        share = left // (len(answers.blocks) - number) if answers.spare else left
        if block.cases.kind == "fault":  # rows that were added to detect faults
            share = cases * each
        while start < cases and share > 0:
            stop = min(cases, start + min(size, max(1, share // each)))
            yield first + start * rows, block.pick(np.arange(start, stop))
            left -= (stop - start) * each
            share -= (stop - start) * each
            start, size = stop, min(size * GROWTH, PART)
        first += cases * rows


def until_wrong(answers: Answers, wrong: Callable[[Block], np.ndarray]) -> np.ndarray:
    """Rows in which a device differs, in the first part of the stimulus that has some: bool (rows,).

    wrong: those of a block.
    """
    different = np.zeros(answers.rows, np.bool_)
    for first, block in parts(answers):
        rows = wrong(block)
        different[first : first + len(rows)] = rows
        if rows.any():
            break
    return different


def tried(answers: Answers, most: int | None = None) -> int:
    """Rows of all parts."""
    count = 0
    for _, block in parts(answers, most):
        count += block.shape[0] * block.shape[1]
    return count


def _values(block: Block) -> int:
    """Values of the stimulus of a case, from 1 to WIDE: sets have few wide cases, and each may matter."""
    count = 0
    for name, array in block.arrays.items():
        count += array[0].size if name.startswith("in.") and len(array) else 0
    return min(max(count, 1), WIDE)
