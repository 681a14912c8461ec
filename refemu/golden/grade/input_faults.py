"""Faults of class `use`: an input port that is not connected, or sampled a row late."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault
from refemu.units.variant import right


def faults(answers: Answers) -> Iterator[Fault]:
    """Two faults for every input."""
    for port in answers.unit.ports(answers.config).inputs:
        says = f"in.{port.name} is not connected, and reads as 0"
        yield Fault(f"unconnected/in.{port.name}", says, partial(_unconnected, port.name))
        says = f"in.{port.name} is sampled a row late, 0 first"
        yield Fault(f"late/in.{port.name}", says, partial(_late, port.name))


def _unconnected(port: str, answers: Answers) -> np.ndarray:
    return device.wrong(
        answers, right(answers.unit, answers.config), lambda inputs: inputs | {port: np.zeros_like(inputs[port])}
    )


def _late(port: str, answers: Answers) -> np.ndarray:
    def late(inputs: device.Inputs) -> device.Inputs:
        array = inputs[port]
        delayed = np.zeros_like(array)
        if answers.unit.timing == "event":
            delayed[:, 1:] = array[:, :-1]
        else:
            delayed[1:] = array[:-1]
        return inputs | {port: delayed}

    return device.wrong(answers, right(answers.unit, answers.config), late)
