"""A few cases of pools that detect missed faults."""

from collections.abc import Iterator, Sequence

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.faults.fault import Fault
from refemu.golden.grade.answers import Answers, values
from refemu.golden.grade.grading import Missed
from refemu.golden.make.rows import Block
from refemu.units.unit import Cases, Kind

NAMED = 2  #: faults that a reason names; the manifest has the ids of all


def cover(tells: np.ndarray) -> list[int]:
    """A few columns of bool (faults, cases) with a True in every row: greedy, the lowest of equals first.

    Refused: a row without a True.
    """
    if not tells.any(axis=1).all():
        raise Refused("cover: some case must detect every fault, got none for one")
    left, chosen = tells, []
    while len(left):
        case = int(np.argmax(np.count_nonzero(left, axis=0)))
        chosen.append(case)
        left = left[~left[:, case]]
    return sorted(chosen)


def cases(missed: Sequence[Missed], kind: Kind, prefix: str = "", around: int = 0) -> Iterator[Cases]:
    """Cases that detect missed faults, each with the faults that no earlier one detects.

    prefix: of the reasons, which then name the cases of the pool; without it they name the faults. around: cases before
    and after it that come too, since a fault may concern them: then no case is shortened to the rows that detect.
    """
    some = _shared(missed)
    for answers in dict.fromkeys(each.answers for each in some):
        here = [each for each in some if each.answers is answers]
        by_case, left = _by_case(here), list(range(len(here)))
        for case in cover(by_case):
            faults = [number for number in left if by_case[number, case]]
            left = [number for number in left if number not in faults]
            shown = [here[number] for number in faults]
            block, first = _block(answers, case)
            chosen = block.pick(_near(block, case - first, max(around, *(each.fault.remembers for each in shown))))
            rows = block.shape[1] if around else _needed(shown, case)
            inputs = values(answers.unit, answers.config, chosen)
            if answers.unit.timing == "event":
                inputs = {name: array[:, :rows] for name, array in inputs.items()}
            why = f"{prefix}{block.cases.why}" if prefix else _why(shown)
            ids = {"faults": [each.fault.id for each in shown]}
            yield Cases(kind, why, inputs, block.cases.decision, {} if prefix else ids)


def _shared(missed: Sequence[Missed]) -> list[Missed]:
    """The same faults, by the first row that a solver solved for one of them and that detects it."""
    solved: list[Answers] = []
    shared = []
    for each in missed:
        if not each.answers.spare:
            earlier = (Missed(each.fault, rows, wrong(each.fault, rows)) for rows in solved)
            each = next((other for other in earlier if other.rows.any()), each)
            solved += [each.answers] * (each.answers not in solved)
        shared.append(each)
    return shared


def wrong(fault: Fault, answers: Answers) -> np.ndarray:
    """Rows in which a device differs: bool (rows,); none if it rejects them."""
    try:
        return fault.wrong(answers)
    except (Refused, RefusedType):
        return np.zeros(answers.rows, np.bool_)


def _by_case(missed: Sequence[Missed]) -> np.ndarray:
    """Whether some row of a case detects a fault: bool (faults, cases). missed: by rows of one pool."""
    starts = np.flatnonzero(np.diff(missed[0].answers.cases, prepend=-1))
    return np.array([np.logical_or.reduceat(each.rows, starts) for each in missed])


def _block(answers: Answers, case: int) -> tuple[Block, int]:
    """The block of a case, and the number of its first case."""
    first = 0
    for block in answers.blocks:
        if case < first + block.shape[0]:
            return block, first
        first += block.shape[0]
    raise IndexError(case)


def _near(block: Block, case: int, around: int) -> np.ndarray:
    """A case of a block with those around it."""
    return np.arange(max(case - around, 0), min(case + around + 1, block.shape[0]))


def _needed(shown: Sequence[Missed], case: int) -> int:
    """Rows from the start of a case to the last that detects one of the faults first."""
    rows = np.flatnonzero(shown[0].answers.cases == case)
    return max(int(np.argmax(each.rows[rows])) + 1 for each in shown)


def _why(shown: Sequence[Missed]) -> str:
    named = "; ".join(each.fault.says for each in shown[:NAMED])
    return f"{named}; {f'and {len(shown) - NAMED} more, ' * (len(shown) > NAMED)}detected here"
