"""Ids of the cases that detect a faulty device."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from refemu import units
from refemu.golden.faults.fault import Inputs
from refemu.golden.files import case_ids
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.units import variant as other
from refemu.units.stepping import Stepped
from refemu.units.variant import Answer, Device, Variant
from tests.golden import committed


@cache
def rows_of(name: str) -> Answers:
    """Rows of a committed set."""
    return answers_of.of_set(committed.read(name))


@cache
def drawn(name: str) -> Answers:
    """Rows of a set's present cases, without those of real data."""
    unit_name, _, config = name.partition("-")
    unit = units.find(unit_name)
    kinds: tuple[Any, ...] = ("paper", "edge", "random")
    chosen = unit.configs[config]
    return answers_of.of_cases(unit, chosen, (each for kind in kinds for each in unit.cases(chosen, kind, 0)))


def ids(answers: Answers, rows: np.ndarray) -> set[str]:
    """Ids of the blocks that have some of the rows."""
    blocks, first, found = answers.blocks, 0, set()
    names = case_ids.of_blocks((block.cases.kind, block.cases.why) for block in blocks)
    for name, block in zip(names, blocks, strict=True):
        stop = first + block.shape[0] * block.shape[1]
        if rows[first:stop].any():
            found.add(name)
        first = stop
    return found


def by(answers: Answers, wrong: Variant | type[Stepped[Any]] | Answer) -> set[str]:
    """Ids of the blocks that detect a device: a variant, a stepping class, or a function on answers."""
    return ids(answers, device.wrong(answers, device_of(answers, wrong)))


def device_of(answers: Answers, wrong: Variant | type[Stepped[Any]] | Answer) -> Device:
    """The device, in the configuration of the rows."""
    if isinstance(wrong, type):
        wrong = Variant("", "", unit_class=wrong)
    elif not isinstance(wrong, Variant):
        wrong = Variant("", "", answer=wrong)
    made = other.device(answers.unit, answers.config, [wrong])
    assert made is not None
    return made


def misread(answers: Answers, change: Callable[[Inputs], Inputs]) -> set[str]:
    """Ids of the blocks that detect a device with changed inputs."""
    return ids(
        answers, device.wrong(answers, other.right(answers.unit, answers.config), lambda inputs, _: change(inputs))
    )


def right(answers: Answers) -> bool:
    """Whether the unit itself passes."""
    return not device.wrong(answers, other.right(answers.unit, answers.config)).any()
