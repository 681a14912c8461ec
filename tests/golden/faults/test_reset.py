"""Event units have a fault of resets, others none."""

import numpy as np

from refemu.golden.faults import reset
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain


def test_only_an_event_unit_can_keep_state(blender: Answers, meter: Answers) -> None:
    assert plain.by_id(reset.faults, blender) == {}
    (fault,) = reset.faults(meter)  # a fake has no readable form, whose registers could be kept one by one
    assert fault.id == "kept" and fault.wrong(meter).tolist() == device.kept(meter).tolist()


def test_each_register_of_a_readable_unit_is_kept_by_itself() -> None:
    answers = plain.committed("bfp_accumulator-paper")
    faults = plain.by_id(reset.faults, answers)
    assert list(faults) == ["kept", "missed", "kept/acc", "kept/flags"]
    rows = {id: fault.wrong(answers) for id, fault in faults.items()}

    starts = np.flatnonzero(np.diff(answers.cases, prepend=-1))
    assert all(wrong.any() and not wrong[: starts[1]].any() for wrong in rows.values())  # the first case is right
    assert rows["kept"].any()


def test_a_missed_reset_shows_in_every_second_case_only() -> None:
    answers = plain.committed("olive_mac-wrap")
    (missed,) = (fault for fault in reset.faults(answers) if fault.id == "missed")
    wrong = missed.wrong(answers)
    assert set(answers.cases[wrong] % 2) == {1}
