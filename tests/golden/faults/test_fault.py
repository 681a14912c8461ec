"""The names of the classes are those of the library, in its order."""

from refemu.golden.faults.fault import CLASSES, QUICK
from refemu.golden.grade.grading import LIBRARY


def test_every_class_has_its_faults() -> None:
    assert tuple(LIBRARY) == CLASSES
    assert {*CLASSES} - {*QUICK} == {"model"}
