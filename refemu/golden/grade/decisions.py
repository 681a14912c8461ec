"""Faults of class `decisions`: the other answers to each decision that the unit names, alone and two together."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, combinations

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault
from refemu.units.unit import Alternative, Config


def faults(answers: Answers) -> Iterator[Fault]:
    """Each configuration once, those left out that cannot be, or that are the set's own."""
    offered = answers.unit.alternatives
    pairs = (pair for pair in combinations(offered, 2) if pair[0].decision != pair[1].decision)
    seen = {repr(answers.config)}
    for chosen in chain(((alternative,) for alternative in offered), pairs):
        config = _applied(answers.config, chosen)
        if config is not None and repr(config) not in seen:
            seen.add(repr(config))
            id = "+".join(f"{part.decision}/{part.says}" for part in chosen)
            says = " and ".join(f"{part.decision}: {part.says}" for part in chosen)
            yield Fault(id, says, partial(_wrong, config))


def _applied(config: Config, chosen: Sequence[Alternative]) -> Config | None:
    try:
        for part in chosen:
            config = part.apply(config)
    except (Refused, RefusedType):
        return None
    return config


def _wrong(config: Config, answers: Answers) -> np.ndarray:
    return device.wrong(answers, config)
