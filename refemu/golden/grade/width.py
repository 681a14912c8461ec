"""Faults of class `width`: a register that has fewer bits.

Every port that later events read is narrowed to 0, 1, 2, ... bits after each event. Narrower devices differ from the
right one earlier, so a width that shows nothing stands for all wider ones: they are not run again.
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
    """One for every width of every register below its own."""
    ports = answers.unit.ports(answers.config)
    kept = {name for name, read in stepping.registers(answers).items() if read}
    for port in (*ports.state, *ports.outputs):
        if port.name in kept:
            run = _Ascending(port)
            for bits in range(port.bits):
                says = f"{port.name} has {bits} of its {port.bits} bits"
                yield Fault(f"narrowed/{port.name}/{bits}", says, partial(run.wrong, bits), slices.tried)


class _Ascending:
    """The devices of one register, asked for in the order of their widths."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.silent: dict[int, int] = {}  #: by identity of a stimulus: the least width that shows nothing

    def wrong(self, bits: int, answers: Answers) -> np.ndarray:
        if bits >= self.silent.get(id(answers), self.port.bits):
            return np.zeros(answers.rows, np.bool_)
        rows = stepping.wrong(answers, hold=narrowed(self.port, bits))
        if not rows.any():
            self.silent[id(answers)] = bits
        return rows


def narrowed(port: Port, bits: int) -> Callable[[Any], Any]:
    """State -> State in which a port holds the low bits of each lane, two's complement where it is signed."""
    mask, sign = (1 << bits) - 1, 1 << max(bits - 1, 0)

    def cut(value: int) -> int:
        low = int(value) & mask
        return low - (1 << bits) if port.signed and bits and low & sign else low

    def hold(state: Any) -> Any:
        value = getattr(state, port.name)
        low = tuple(map(cut, value)) if isinstance(value, tuple) else cut(value)
        return state if low == value else dataclasses.replace(state, **{port.name: low})

    return hold
