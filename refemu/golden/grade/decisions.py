"""Faults of class `decisions`: the variants of each decision that the unit names, alone and in pairs.

Only pairs of compiled devices, that is of variants that change parameters: readable devices take too long.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import device, slices
from refemu.golden.grade.answers import Answers
from refemu.units import variant as other
from refemu.units.variant import Device


def faults(answers: Answers) -> Iterator[Fault]:
    """Each device once, without impossible ones and the set's own configuration."""
    offered = answers.unit.variants
    pairs = (pair for pair in combinations(offered, 2) if pair[0].decision != pair[1].decision)
    seen = set()
    for chosen in chain(((variant,) for variant in offered), pairs):
        wrong = other.device(answers.unit, answers.config, chosen)
        if wrong is None or (len(chosen) > 1 and not _is_compiled(wrong)):
            continue
        key = repr(wrong.config), frozenset(id(part) for part in chosen if part.unit_class or part.answer)
        if key not in seen:
            seen.add(key)
            name = "+".join(f"{part.decision}/{part.says}" for part in chosen)
            says = " and ".join(f"{part.decision}: {part.says}" for part in chosen)
            looked_at, program = partial(_tried, wrong), partial(_wrong, wrong)
            yield Fault(name, says, chosen[0].decision, variants=chosen, program=program, looked_at=looked_at)


def _wrong(other: Device, answers: Answers) -> np.ndarray:
    """Rows that differ; for a readable device, those in the first part of the stimulus with any."""
    if _is_compiled(other):
        return device.wrong(answers, other)
    different, refusal, taken = np.zeros(answers.rows, np.bool_), None, False
    for first, block in slices.parts(answers):
        try:
            rows = device.wrong(Answers(answers.unit, answers.config, [block]), other)
        except (Refused, RefusedType) as error:
            refusal = error
            continue
        taken = True
        different[first : first + len(rows)] = rows
        if rows.any():
            break
    if refusal is not None and not taken:
        raise refusal
    return different


def _tried(other: Device, answers: Answers) -> int:
    return answers.rows if _is_compiled(other) else slices.tried(answers)


def _is_compiled(other: Device) -> bool:
    return other.run is other.unit.run_compiled
