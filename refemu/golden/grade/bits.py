"""Faults of class `bits`: an output bit stuck at 0, stuck at 1, or inverted."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault


def faults(answers: Answers) -> Iterator[Fault]:
    """Three faults for every bit of every lane of every output."""
    for name, port in answers.ports.items():
        for lane in range(port.count):
            place = f"{name}, lane {lane}" if port.count > 1 else name
            for bit in range(port.bits):
                where = f"{name}/{lane}/{bit}"
                for level in (0, 1):
                    says = f"bit {bit} of {place} is stuck at {level}"
                    yield Fault(f"stuck_at_{level}/{where}", says, partial(_stuck, name, lane, bit, level))
                yield Fault(f"inverted/{where}", f"bit {bit} of {place} is inverted", partial(_cared, name, lane, bit))


def _stuck(name: str, lane: int, bit: int, level: int, answers: Answers) -> np.ndarray:
    codes = answers.outputs[name][:, lane]
    other = ~codes if level else codes
    return np.asarray(_cared(name, lane, bit, answers) & _holds(other, bit))


def _cared(name: str, lane: int, bit: int, answers: Answers) -> np.ndarray:
    return _holds(answers.care[name][:, lane], bit)


def _holds(codes: np.ndarray, bit: int) -> np.ndarray:
    return np.asarray((codes & codes.dtype.type(1 << bit)) != 0)
