"""Faults of class `decisions`: the other answers to each decision that the unit names, alone and two together."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations

import numpy as np

from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault
from refemu.units import alternative as other
from refemu.units.alternative import Device


def faults(answers: Answers) -> Iterator[Fault]:
    """Each device once, those left out that cannot be, or that are the set's own configuration."""
    offered = answers.unit.alternatives
    pairs = (pair for pair in combinations(offered, 2) if pair[0].decision != pair[1].decision)
    seen = set()
    for chosen in chain(((alternative,) for alternative in offered), pairs):
        wrong = other.device(answers.unit, answers.config, chosen)
        if wrong is None:
            continue
        key = repr(wrong.config), frozenset(id(part) for part in chosen if part.variant or part.answer)
        if key not in seen:
            seen.add(key)
            name = "+".join(f"{part.decision}/{part.says}" for part in chosen)
            says = " and ".join(f"{part.decision}: {part.says}" for part in chosen)
            yield Fault(name, says, partial(_wrong, wrong))


def _wrong(other: Device, answers: Answers) -> np.ndarray:
    return device.wrong(answers, other)
