"""Rows late, early and swapped, compared with devices written row by row."""

import pytest

from refemu.golden.faults import order
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain
from tests.golden.grade.plain import Row


def late(case: list[Row]) -> list[Row]:
    return [{name: [0] * len(words) for name, words in case[0].items()}, *case[:-1]]


def early(case: list[Row]) -> list[Row]:
    return [*case[1:], case[-1]]


def swapped(case: list[Row]) -> list[Row]:
    pairs = [case[at : at + 2] for at in range(0, len(case), 2)]
    return [row for pair in pairs for row in reversed(pair)]


@pytest.mark.parametrize("device", [late, early, swapped])
def test_every_fault_equals_a_written_device(device: plain.Device, blender: Answers, meter: Answers) -> None:
    for answers in (blender, meter):
        fault = plain.by_id(order.faults, answers)[device.__name__]

        assert fault.wrong(answers).tolist() == plain.wrong(answers, device)
        assert fault.wrong(answers).any()
