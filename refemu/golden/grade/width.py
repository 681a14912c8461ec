"""Faults of class `width`: a register with fewer bits.

Every port that later events read is narrowed to 0, 1, 2, ... bits after each event. Narrower devices differ from the
right one earlier, so once a width is not detected, wider ones are not run.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from refemu.golden.grade import slices, stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault
from refemu.units.ports import Port


def faults(answers: Answers) -> Iterator[Fault]:
    """A fault for every smaller width of every register."""
    ports = answers.unit.ports(answers.config)
    kept = {name for name, read in stepping.registers(answers).items() if read}
    for port in (*ports.state, *ports.outputs):
        if port.name in kept:
            run = _Ascending(port)
            for bits in range(port.bits):
                says = f"{port.name} has {bits} of its {port.bits} bits"
                yield Fault(f"narrowed/{port.name}/{bits}", says, partial(run.wrong, bits), slices.tried)


class _Ascending:
    """The devices of one register, run in the order of their widths."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.silent: dict[int, int] = {}  #: by identity of a stimulus: the least width that is not detected

    def wrong(self, bits: int, answers: Answers) -> np.ndarray:
        if bits >= self.silent.get(id(answers), self.port.bits):
            return np.zeros(answers.rows, np.bool_)
        rows = stepping.wrong(answers, hold=narrowed(self.port, bits))
        if not rows.any():
            self.silent[id(answers)] = bits
        return rows


def narrowed(port: Port, bits: int) -> Callable[[Any], Any]:
    """State -> State with the low bits of each lane of a port, in two's complement if it is signed."""
    mask, sign = (1 << bits) - 1, 1 << max(bits - 1, 0)

    def cut(value: int) -> int:
        low = int(value) & mask
        return low - (1 << bits) if port.signed and bits and low & sign else low

    def hold(state: Any) -> Any:
        value = getattr(state, port.name)
        low = tuple(map(cut, value)) if isinstance(value, tuple) else cut(value)
        return state if low == value else dataclasses.replace(state, **{port.name: low})

    return hold
