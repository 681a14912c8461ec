"""Readable units with changed registers: fields that outlast events, and effects on outputs."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.grade import stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.stepping import Tampering
from tests.golden.grade import plain


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("olive_mac-wrap", {"acc": True}),
        ("ovp_decoder-int4", {}),
        ("concat-a4", {}),
        ("bfp_accumulator-paper", {"acc": True, "flags": True}),
    ],
)
def test_fields_outlasting_events_are_found(name: str, registers: dict[str, bool]) -> None:
    assert dict(stepping.registers(plain.committed(name))) == registers


def test_unsteppable_fake_has_no_fields(blender: Answers) -> None:
    assert stepping.registers(blender) == {}


def test_unchanged_unit_is_right() -> None:
    for name in ("olive_mac-wrap", "olive_edp-int8_int8", "fdgf-small"):
        answers = plain.committed(name)
        assert not stepping.wrong(
            answers, Tampering(hold=lambda state: state, start=lambda: lambda reset, last: reset)
        ).any()


def test_changed_accumulator_is_wrong_afterwards() -> None:
    answers = plain.committed("olive_mac-wrap")
    wrong = stepping.wrong(answers, Tampering(hold=lambda state: dataclasses.replace(state, acc=state.acc ^ 1)))

    assert wrong[0]  # no row after the first part of the stimulus is examined


def test_error_of_a_device_is_rejected() -> None:
    answers = plain.committed("olive_mac-wrap")
    with pytest.raises(Refused, match="ValueError"):
        stepping.wrong(answers, Tampering(hold=lambda state: dataclasses.replace(state, acc=int("none"))))


def test_value_outside_its_port_is_wrong() -> None:
    answers = plain.committed("olive_mac-wrap")
    right = Answers(answers.unit, answers.config, [answers.blocks[0].pick(np.arange(1))])
    for value in (2, "none"):

        def hold(state: Any, value: Any = value) -> Any:
            return dataclasses.replace(state, overflow=value if state.index == 0 else state.overflow)

        assert np.flatnonzero(stepping.wrong(right, Tampering(hold=hold))).tolist() == [0]
