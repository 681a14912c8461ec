"""Coverage and its thresholds."""

from refemu.golden.faults.fault import FaultClass
from refemu.golden.grade.grade import Counts, Grade


def test_grade_ignores_equivalent_and_untested_faults() -> None:
    assert Counts(10, 6, 2, 0, 1, 1).grade == 0.75
    assert Counts(3, 0, 0, 0, 2, 1).grade is None


def test_one_missed_fault_fails() -> None:
    good, bad = Counts(2, 1, 0, 0, 1, 0), Counts(2, 1, 1, 0, 0, 0)

    assert passes({"bits": good})
    assert not passes({"bits": good, "lanes": bad})


def test_97_percent_of_mutants_pass() -> None:
    assert passes({"model": Counts(120, 97, 3, 0, 15, 5)})
    assert not passes({"model": Counts(120, 96, 3, 0, 16, 5)})
    assert not passes({"width": Counts(120, 97, 3, 0, 15, 5)})


def passes(classes: dict[FaultClass, Counts]) -> bool:
    return Grade("s", "u", "c", 1, 0, 0, classes, [], {}, {}, {}).passes
