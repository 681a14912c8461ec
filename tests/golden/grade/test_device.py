"""Devices that run: changed inputs and parameters, no reset, and invalid cases."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.faults import use
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from refemu.units.unit import Cases, Config
from refemu.units.variant import right
from tests.golden import fakes


def picky(first: Any, second: Any, *, overflow: str) -> fakes.Blend:
    """`blend`, for which 3 is invalid."""
    if np.any(np.asarray(first) == 3):
        raise Refused("blender: first must not be 3")
    return fakes.blend(first, second, overflow=overflow)


def test_the_unit_itself_is_right_everywhere(blender: Answers, meter: Answers) -> None:
    for answers in (blender, meter):
        assert not device.wrong(answers, right(answers.unit, answers.config)).any()


def test_changed_parameter_differs_where_observable(blender: Answers) -> None:
    wrong = device.wrong(blender, right(blender.unit, Config(overflow="saturate")))
    wanted: list[bool] = []
    for block in blender.blocks:
        inputs = block.cases.inputs["first"], block.cases.inputs["second"]
        wraps, saturates = (fakes.blend(*inputs, overflow=overflow).both for overflow in ("wrap", "saturate"))
        wanted += (wraps != saturates).any(axis=-1).tolist()

    assert wrong.tolist() == wanted and any(wanted)


@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
def test_late_input_is_that_of_the_piece_before(blender: Answers, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PIECE", piece)
    late = next(fault for fault in use.faults(blender) if fault.id == "late/in.first")
    wrong = device.wrong(blender, right(blender.unit, blender.config), late.stimulus)
    wanted: list[bool] = []
    for block in blender.blocks:
        first, second = block.cases.inputs["first"], block.cases.inputs["second"]
        seen = np.concatenate([np.zeros_like(first[:1]), first[:-1]])
        rights, got = (fakes.blend(each, second, **blender.config).both for each in (first, seen))
        wanted += (rights != got).any(axis=-1).tolist()

    assert wrong.tolist() == wanted and any(wanted)


def test_meter_without_reset_keeps_adding(meter: Answers) -> None:
    total, wrong = 0, []
    for block in meter.blocks:
        for adds, clears in zip(block.cases.inputs["add"], block.cases.inputs["clear"], strict=True):
            fresh = 0
            for add, clear in zip(adds.tolist(), clears.tolist(), strict=True):
                total, fresh = (0, 0) if clear else ((total + add) & 15, (fresh + add) & 15)
                wrong.append(total != fresh)

    assert device.kept(meter).tolist() == wrong and any(wrong) and not all(wrong)


def test_invalid_cases_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "picky", picky, raising=False)
    unit = dataclasses.replace(fakes.BLENDER, compiled_run="tests.golden.fakes:picky", run=picky, mark=None)
    inputs = {"first": np.array([1, 2, 4, 5, 15]), "second": np.array([1, 1, 1, 1, 7])}
    answers = answers_of.of_cases(unit, unit.configs["wrap"], [Cases("edge", "none is 3", inputs)])

    def shifted(seen: device.Inputs, before: np.ndarray) -> device.Inputs:
        return seen | {"first": seen["first"] - 1}  # the third is 3

    assert device.wrong(answers, right(answers.unit, answers.config), shifted).tolist() == [
        True,
        True,
        False,
        True,
        True,
    ]
    with pytest.raises(Refused, match="first must not be 3"):
        device.wrong(answers, right(answers.unit, answers.config), lambda seen, before: seen | {"first": np.full(5, 3)})


def test_halving_of_invalid_cases_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "picky", picky, raising=False)
    calls: list[int] = []
    unit = dataclasses.replace(fakes.BLENDER, compiled_run="tests.golden.fakes:counted", run=picky, mark=None)

    def counted(first: Any, second: Any, *, overflow: str) -> fakes.Blend:
        calls.append(len(first))
        return picky(first, second, overflow=overflow)

    monkeypatch.setattr(fakes, "counted", counted, raising=False)
    inputs = {"first": np.full(1000, 1), "second": np.zeros(1000, np.int64)}
    answers = answers_of.of_cases(unit, unit.configs["wrap"], [Cases("edge", "many", inputs)])
    calls.clear()

    with pytest.raises(Refused):
        device.wrong(
            answers, right(answers.unit, answers.config), lambda seen, before: seen | {"first": np.full(1000, 3)}
        )
    assert device.TRIES <= len(calls) <= 2 * device.TRIES
