"""The cases that a stimulus lacks: a few of the pool that detect every missed fault."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.files import sets, store
from refemu.golden.grade.answers import Answers, values
from refemu.golden.grade.grading import Grading
from refemu.golden.make import build
from refemu.golden.make.regenerate import MISSING
from refemu.units import parameters
from refemu.units.unit import Cases


def write(grading: Grading, folder: Path) -> Path | None:
    """Write cases that detect every missed fault into `folder`/<unit>-<config>/, with `hex/`; None if none is missed.

    Refused: refemu did not write the folder of that name.
    """
    if not grading.shown_by:
        return None
    unit, config = grading.pool.unit, grading.pool.config
    target = folder / parameters.set_name(unit, config)
    store.require_replaceable(target)
    chosen = cover(_by_case(grading.shown_by, grading.pool.answers.cases))
    cases = list(_cases(grading.pool.answers, chosen, grading.grade.set))
    manifest, arrays = build.build(unit, config, cases, generator={"model": {"function": MISSING, "seed": 0}})
    store.replace(target, sets.render(manifest, arrays, hex=True))
    return target


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


def _by_case(telling: Sequence[np.ndarray], cases: np.ndarray) -> np.ndarray:
    """Whether some row of a case detects a fault: bool (faults, cases)."""
    starts = np.flatnonzero(np.diff(cases, prepend=-1))
    return np.array([np.logical_or.reduceat(rows, starts) for rows in telling])


def _cases(answers: Answers, chosen: Sequence[int], name: str) -> Iterator[Cases]:
    first = 0
    for block in answers.blocks:
        count = block.shape[0]
        some = np.array([case - first for case in chosen if first <= case < first + count], np.int64)
        first += count
        if some.size:
            inputs: Mapping[str, np.ndarray] = values(answers.unit, answers.config, block.pick(some))
            yield Cases("model", f"detects what {name} misses; from: {block.cases.why}", inputs)
