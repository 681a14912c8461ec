"""Event units have a fault of resets, others none."""

from refemu.golden.grade import device, reset
from refemu.golden.grade.answers import Answers
from tests.golden.grade import plain


def test_only_an_event_unit_can_keep_state(blender: Answers, meter: Answers) -> None:
    assert plain.by_id(reset.faults, blender) == {}
    (fault,) = reset.faults(meter)
    assert fault.id == "kept" and fault.wrong(meter).tolist() == device.kept(meter).tolist()
