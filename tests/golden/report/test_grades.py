"""The document of a grade."""

from pathlib import Path

from refemu import golden
from refemu.golden.report import grades

VECTORS = Path(__file__).resolve().parents[3] / "vectors"


def test_survivors_have_their_class_and_fields() -> None:
    grade = golden.grade_set(VECTORS / "flint_decoder-flint4", ["bits"], pool=1)
    document = grades.document(grade)
    assert grade.survivors and document["classes"]["bits"]["equivalent"] == len(grade.survivors)
    assert [each["class"] for each in document["survivors"]] == [each.klass for each in grade.survivors]
    assert all("klass" not in each for each in document["survivors"])
