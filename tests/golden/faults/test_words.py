"""Rearranged words, or words read as another kind of number, compared with plain integers."""

import dataclasses
import types
from typing import Any

import numpy as np
import pytest

from refemu.golden.faults import words
from refemu.golden.grade import answers as answers_of
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
    "nan": lambda word, port: word | 1 if _nan(word) else word,
    "nan_sign": lambda word, port: word ^ 0x8000 if _nan(word) else word,
    "nan_full": lambda word, port: 0x7FFF if _nan(word) else word,
    "nan_infinity": lambda word, port: 0x7C00 if _nan(word) else word,
    "nan_zero": lambda word, port: 0 if _nan(word) else word,
    "nibble_order": lambda word, port: int(f"{word:0{port.bits // 4}x}"[::-1], 16),
    "negated": lambda word, port: -word,
    "zero": lambda word, port: word if word & 0x7FFF else 0,
    "zero_sign": lambda word, port: word if word & 0x7FFF else word ^ 0x8000,
    "flush": lambda word, port: word if word & 0x7C00 else word & 0x8000,
    "flush_positive": lambda word, port: word if word & 0x7C00 else 0,
    "finite": lambda word, port: word - 1 if word & 0x7FFF == 0x7C00 else word,
    "narrowed": lambda word, port: word & (1 << port.bits // 2) - 1,
    "added": lambda word, port: word + 1,
    "clipped": lambda word, port: _clipped(word, port, (1 << port.bits - 1) - 1 >> 1),
}


def _nan(word: int) -> bool:
    return word & 0x7C00 == 0x7C00 and word & 0x3FF != 0


def _clipped(word: int, port: Port, top: int) -> int:
    value = word - (1 << port.bits) if port.signed and word >> (port.bits - 1) else word
    return max(~top if port.signed else 0, min(top, value))


def _pairs(digits: str) -> list[str]:
    return [digits[at : at + 2] for at in range(0, len(digits), 2)]


def test_every_fault_equals_a_written_device(blender: Answers, meter: Answers) -> None:
    told = set()
    for answers in (blender, meter):
        for id, fault in plain.by_id(words.faults, answers).items():
            change, name = id.split("/")[:2]
            port = answers.ports[name]

            def device(row: plain.Row, name: str = name, port: Port = port, change: str = change) -> None:
                row[name] = [CHANGES[change](word, port) & (1 << port.bits) - 1 for word in row[name]]

            assert fault.wrong(answers).tolist() == plain.wrong(answers, plain.each(device)), id
            told |= {change} if fault.wrong(answers).any() else set()

    floats = {"finite", "flush", *(id for id in CHANGES if id.startswith("nan"))}
    assert told == set(CHANGES) - floats  # no infinity or subnormal is among the ratios, and every NaN is masked


def test_changes_of_floats() -> None:
    port = Port("y", 16, encoding="f16")
    codes = np.array([0, 0x8000, 1, 0x8001, 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x7BFF], np.uint16)
    for id, _, _, change in words.changes(port):
        assert change(codes, port).tolist() == [CHANGES[id](word, port) & 0xFFFF for word in codes.tolist()], id


def test_unmasked_nan_detects_a_payload(blender: Answers) -> None:
    open_eyed = Answers(dataclasses.replace(fakes.BLENDER, care=None), blender.config, ())
    cases = Cases("edge", "0 / 0", {"first": np.array([0, 1]), "second": np.array([0, 1])})
    answers = answers_of.of_cases(open_eyed.unit, blender.config, [cases])

    assert plain.by_id(words.faults, answers)["nan/out.ratio"].wrong(answers).tolist() == [True, False]


@pytest.mark.parametrize(("bits", "lanes", "exchanged"), [(5, 2, True), (5, 1, False), (6, 2, False)])
def test_ports_of_equal_size_are_exchanged(bits: int, lanes: int, exchanged: bool, blender: Answers) -> None:
    answers = Answers(blender.unit, blender.config, (types.SimpleNamespace(shape=(2, 1)),))  # type: ignore[arg-type]
    codes = np.array([[1, 2], [3, 3]], np.uint8), np.array([[1, 2], [3, 4]], np.uint8)
    vars(answers)["ports"] = {"out.a": Port("a", 5, 2), "out.b": Port("b", bits, lanes)}
    vars(answers)["outputs"] = dict(zip(("out.a", "out.b"), codes, strict=True))
    vars(answers)["care"] = dict.fromkeys(("out.a", "out.b"), np.full((2, 2), 31, np.uint8))
    faults = plain.by_id(words.faults, answers)

    assert ("exchanged/out.a/out.b" in faults) == exchanged
    if exchanged:
        assert faults["exchanged/out.a/out.b"].wrong(answers).tolist() == [False, True]
