"""Event units have reset faults, other units none."""

import numpy as np

from refemu.golden.faults import reset
from refemu.golden.grade import device
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain


def test_only_event_units_have_reset_faults(blender: Answers, meter: Answers) -> None:
    assert plain.by_id(reset.faults, blender) == {}
    (fault,) = reset.faults(meter)  # a fake has no readable form with registers to retain one by one
    assert fault.id == "kept" and fault.wrong(meter).tolist() == device.kept(meter).tolist()


def test_each_register_is_retained_alone() -> None:
    answers = plain.committed("bfp_accumulator-paper")
    faults = plain.by_id(reset.faults, answers)
    assert list(faults) == ["kept", "missed", "kept/acc", "kept/flags"]
    rows = {id: fault.wrong(answers) for id, fault in faults.items()}

    starts = np.flatnonzero(np.diff(answers.cases, prepend=-1))
    assert all(wrong.any() and not wrong[: starts[1]].any() for wrong in rows.values())  # the first case is right
    assert rows["kept"].any()


def test_missed_reset_affects_every_second_case() -> None:
    answers = plain.committed("olive_mac-wrap")
    (missed,) = (fault for fault in reset.faults(answers) if fault.id == "missed")
    wrong = missed.wrong(answers)
    assert set(answers.cases[wrong] % 2) == {1}
