"""Rearranged words, or words read as another kind of number, compared with plain integers."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import words
from refemu.golden.grade.answers import Answers
from refemu.units.ports import Port
from refemu.units.unit import Cases
from tests.golden import fakes
from tests.golden.grade import plain

CHANGES: dict[str, Any] = {
    "bytes": lambda word, port: int.from_bytes(word.to_bytes(port.bits // 8, "little"), "big"),
    "nibbles": lambda word, port: int("".join(pair[::-1] for pair in _pairs(f"{word:0{port.bits // 4}x}")), 16),
    "sign": lambda word, port: (
        word & (1 << (port.bits - 1)) - 1
        if port.encoding == "f16"
        else (1 << port.bits) - word
        if word >> (port.bits - 1)
        else word
    ),
    "sign_magnitude": lambda word, port: (
        ((1 << port.bits) - word) | 1 << (port.bits - 1) if word >> (port.bits - 1) else word
    ),
    "nan": lambda word, port: word | 1 if word & 0x7C00 == 0x7C00 and word & 0x3FF else word,
}


def _pairs(digits: str) -> list[str]:
    return [digits[at : at + 2] for at in range(0, len(digits), 2)]


def test_every_fault_equals_a_written_device(blender: Answers, meter: Answers) -> None:
    told = set()
    for answers in (blender, meter):
        for id, fault in plain.by_id(words.faults, answers).items():
            change, name = id.split("/")
            port = answers.ports[name]

            def device(row: plain.Row, name: str = name, port: Port = port, change: str = change) -> None:
                row[name] = [CHANGES[change](word, port) & (1 << port.bits) - 1 for word in row[name]]

            assert fault.wrong(answers).tolist() == plain.wrong(answers, plain.each(device)), id
            told |= {change} if fault.wrong(answers).any() else set()

    assert told == set(CHANGES) - {"nan"}  # every NaN of this unit is masked


def test_unmasked_nan_detects_a_payload(blender: Answers) -> None:
    open_eyed = Answers(dataclasses.replace(fakes.BLENDER, care=None), blender.config, ())
    cases = Cases("edge", "0 / 0", {"first": np.array([0, 1]), "second": np.array([0, 1])})
    answers = answers_of.of_cases(open_eyed.unit, blender.config, [cases])

    assert plain.by_id(words.faults, answers)["nan/out.ratio"].wrong(answers).tolist() == [True, False]


@pytest.mark.parametrize(("bits", "lanes", "exchanged"), [(5, 2, True), (5, 1, False), (6, 2, False)])
def test_ports_of_equal_size_are_exchanged(bits: int, lanes: int, exchanged: bool, blender: Answers) -> None:
    answers = Answers(blender.unit, blender.config, ())
    codes = np.array([[1, 2], [3, 3]], np.uint8), np.array([[1, 2], [3, 4]], np.uint8)
    vars(answers)["ports"] = {"out.a": Port("a", 5, 2), "out.b": Port("b", bits, lanes)}
    vars(answers)["outputs"] = dict(zip(("out.a", "out.b"), codes, strict=True))
    vars(answers)["care"] = dict.fromkeys(("out.a", "out.b"), np.full((2, 2), 31, np.uint8))
    faults = plain.by_id(words.faults, answers)

    assert ("exchanged/out.a/out.b" in faults) == exchanged
    if exchanged:
        assert faults["exchanged/out.a/out.b"].wrong(answers).tolist() == [False, True]
