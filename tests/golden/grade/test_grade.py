"""The share that counts."""

from refemu.golden.grade.grade import Counts, Grade


def test_the_grade_leaves_out_what_nothing_is_known_of() -> None:
    assert Counts(10, 6, 2, 1, 1).grade == 0.75
    assert Counts(3, 0, 0, 2, 1).grade is None


def test_one_hole_is_enough() -> None:
    good, bad = Counts(2, 1, 0, 1, 0), Counts(2, 1, 1, 0, 0)

    assert Grade("s", "u", "c", 1, 0, {"bits": good}, [], {}).passes
    assert not Grade("s", "u", "c", 1, 0, {"bits": good, "lanes": bad}, [], {}).passes
