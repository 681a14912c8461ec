"""The share that counts, and the gates."""

from refemu.golden.faults.fault import FaultClass
from refemu.golden.grade.grade import Counts, Grade


def test_the_grade_leaves_out_what_nothing_is_known_of() -> None:
    assert Counts(10, 6, 2, 1, 1).grade == 0.75
    assert Counts(3, 0, 0, 2, 1).grade is None


def test_one_hole_is_enough() -> None:
    good, bad = Counts(2, 1, 0, 1, 0), Counts(2, 1, 1, 0, 0)

    assert passes({"bits": good})
    assert not passes({"bits": good, "lanes": bad})


def test_of_mutants_97_percent_are_enough() -> None:
    assert passes({"model": Counts(120, 97, 3, 15, 5)})
    assert not passes({"model": Counts(120, 96, 3, 16, 5)})
    assert not passes({"width": Counts(120, 97, 3, 15, 5)})


def passes(classes: dict[FaultClass, Counts]) -> bool:
    return Grade("s", "u", "c", 1, 0, classes, [], {}, {}, {}).passes
