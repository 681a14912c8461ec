"""Faults of class `width`: a register that has fewer bits.

Every port that later events read is narrowed to 0, 1, 2, ... bits after each event. Narrower devices differ from the
right one earlier, so a width that shows nothing stands for all wider ones: they are not run again.
"""

import dataclasses
from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from refemu.golden.explain.scoring import RIGHT
from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Fault, Inputs, bits_of
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import slices, stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.stepping import Tampering
from refemu.units.ports import Port
from refemu.units.unit import Cases

CASES = 8  #: wrong cases from which a width is read, at most


def faults(answers: Answers) -> Iterator[Fault]:
    """One for every width of every register below its own."""
    ports = answers.unit.ports(answers.config)
    kept = {name for name, read in stepping.registers(answers).items() if read}
    for port in (*ports.state, *ports.outputs):
        if port.name in kept:
            run = _Ascending(port)
            for bits in range(port.bits):
                yield dataclasses.replace(narrowed(port, bits), program=partial(run.wrong, bits))


def suspected(table: Table, names: Set[str]) -> Iterator[Fault]:
    """For every register the most bits with which each wrong case may begin to be wrong where it does.

    If most of these cases need more bits before, they show it late: then the widths that make each wrong just there.
    """
    ports = table.unit.ports(table.config)
    registers = [port for port in (*ports.state, *ports.outputs) if port.name in names]
    wrong, cases = table.wrong(table.want), list[tuple[Inputs, int]]()
    needed: dict[str, list[tuple[int, int]]] = {port.name: [] for port in registers}
    for group in table.groups if registers else ():
        rows = wrong[table.place(group.rows.reshape(-1))].reshape(group.rows.shape)
        for case in np.flatnonzero(rows.any(axis=1))[: CASES - len(cases)].tolist():
            cases.append(
                ({name: array[case : case + 1] for name, array in group.inputs.items()}, int(rows[case].argmax()))
            )
            for name, peaks in _peaks(table, cases[-1][0], registers, cases[-1][1]).items():
                needed[name].append(peaks)
    for port in registers:
        bits = min((now for _, now in needed[port.name]), default=0) - 1
        before = [earlier <= bits for earlier, _ in needed[port.name]]
        widths = [bits] if bits >= 0 else []
        if before.count(True) < RIGHT * len(before):
            widths = list(range(bits + 1))
            for case in cases:
                widths = list(_seen_late(table, port, widths, *case))
        yield from (narrowed(port, width) for width in widths)


def _seen_late(table: Table, port: Port, widths: Sequence[int], inputs: Inputs, row: int) -> Iterator[int]:
    """The widths with which a case is wrong from this row on."""
    case = answers_of.of_cases(table.unit, table.config, [Cases("edge", "a wrong case", inputs)])
    for bits in widths:
        wrong = narrowed(port, bits).wrong(case)
        if wrong.any() and wrong.argmax() == row:
            yield bits


def _peaks(table: Table, inputs: Inputs, registers: Sequence[Port], last: int) -> dict[str, tuple[int, int]]:
    """Bits that each register needs in a case before row `last`, and up to it."""
    now, before = dict.fromkeys((port.name for port in registers), 0), {}

    def seen(state: Any) -> Any:
        for port in registers:
            now[port.name] = max(now[port.name], _needed(port, getattr(state, port.name)))
        return state

    for row, _ in stepping.Tampered(table.unit, table.config, Tampering(hold=seen)).operations(inputs):
        if row == last:
            break
        before = dict(now)
    return {name: (before.get(name, 0), bits) for name, bits in now.items()}


def narrowed(port: Port, bits: int) -> Fault:
    """A register of fewer bits."""
    says = f"{port.name} has {bits} of its {port.bits} bits"
    parameters, price = {"port": port.name, "bits": bits}, bits_of(port.bits)
    cut = Tampering(hold=partial(held, port, bits))
    return Fault(
        f"narrowed/{port.name}/{bits}", says, "width", parameters, price, registers=cut, looked_at=slices.tried
    )


class _Ascending:
    """The devices of one register, asked for in the order of their widths."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.silent = WeakKeyDictionary[Answers, int]()  #: by stimulus: the least width that shows nothing

    def wrong(self, bits: int, answers: Answers) -> np.ndarray:
        if bits >= self.silent.get(answers, self.port.bits):
            return np.zeros(answers.rows, np.bool_)
        rows = narrowed(self.port, bits).wrong(answers)
        if not rows.any():
            self.silent[answers] = bits
        return rows


def held(port: Port, bits: int, state: Any) -> Any:
    """State in which a port has the low bits of each lane, two's complement where it is signed."""
    value = getattr(state, port.name)
    low = tuple(_low(port, bits, each) for each in value) if isinstance(value, tuple) else _low(port, bits, value)
    return state if low == value else dataclasses.replace(state, **{port.name: low})


def _low(port: Port, bits: int, value: int) -> int:
    low = int(value) & (1 << bits) - 1
    return low - (1 << bits) if port.signed and bits and low >> (bits - 1) else low


def _needed(port: Port, value: Any) -> int:
    """Bits that a register needs for a value, 0 for 0."""
    if isinstance(value, tuple):
        return max((_needed(port, each) for each in value), default=0)
    number = int(value)
    return (max(number, ~number).bit_length() + 1 if port.signed else number.bit_length()) if number else 0
