"""Readable units with registers tampered with: which fields last, and what a changed one does to the outputs."""

import dataclasses

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
def test_fields_that_outlast_an_event(name: str, registers: dict[str, bool]) -> None:
    assert dict(stepping.registers(plain.committed(name))) == registers


def test_a_fake_that_cannot_be_stepped_has_none(blender: Answers) -> None:
    assert stepping.registers(blender) == {}


def test_a_unit_that_nobody_tampers_with_is_right() -> None:
    for name in ("olive_mac-wrap", "olive_edp-int8_int8", "fdgf-small"):
        answers = plain.committed(name)
        assert not stepping.wrong(
            answers, Tampering(hold=lambda state: state, start=lambda: lambda reset, last: reset)
        ).any()


def test_an_accumulator_that_keeps_one_more_is_wrong_from_the_next_sum_on() -> None:
    answers = plain.committed("olive_mac-wrap")
    wrong = stepping.wrong(answers, Tampering(hold=lambda state: dataclasses.replace(state, acc=state.acc ^ 1)))

    assert wrong[0]  # and no row after the first part of the stimulus is looked at


def test_what_the_wrong_device_raises_is_a_refusal() -> None:
    answers = plain.committed("olive_mac-wrap")
    with pytest.raises(Refused, match="ValueError"):
        stepping.wrong(answers, Tampering(hold=lambda state: dataclasses.replace(state, acc="none")))
