"""Coverage of a set agrees with its grade."""

import dataclasses
from pathlib import Path

from refemu import golden
from refemu.golden.report import coverage
from refemu.golden.report.coverage import CLASSES, FAST


def test_the_numbers_are_those_of_grade(made_once: Path) -> None:
    folder = made_once / "olive_mac-wrap"
    seen = coverage.coverage(folder, golden.load(folder), FAST)
    graded = golden.grade_set(folder, FAST)

    assert seen.grade == graded and set(graded.classes) == {"bits", "lanes", "order", "words"}
    assert seen.toggle == graded.toggle
    assert seen.flags == {name: rows for name, rows in graded.flags.items() if "+" not in name}
    assert sum(seen.kinds.values()) == graded.rows and set(seen.kinds) == {"paper", "edge"}
    acc = graded.toggle["out.acc"]
    assert seen.share[1] == 2 * sum(counts["bits"] for counts in graded.toggle.values())
    assert seen.share[0] >= acc["0"] + acc["1"]


def test_decisions_are_rows_of_their_cases(made_once: Path) -> None:
    folder = made_once / "bench" / "outlier_decoder-e2m1"
    manifest = golden.load(folder).manifest
    seen = coverage.coverage(folder, golden.load(folder), CLASSES["none"])

    assert seen.grade is None and seen.reason == ""
    assert seen.decisions and sum(seen.decisions.values()) == sum(
        case["cases"] * case["rows"] for case in manifest["cases"] if "decision" in case
    )


def test_a_unit_that_this_refemu_has_not_is_no_error(made_once: Path) -> None:
    folder = made_once / "olive_mac-wrap"
    whole = golden.load(folder)
    for change, reason in (({"unit": "olive_mop"}, "did you mean"), ({"parameters": "wrap=9"}, "wrap")):
        other = dataclasses.replace(whole, manifest={**whole.manifest, **change})
        assert reason in coverage.coverage(folder, other, FAST).reason
    less = {name: array for name, array in whole.arrays.items() if name != "out.acc"}
    assert "has no out.acc" in coverage.coverage(folder, dataclasses.replace(whole, arrays=less), FAST).reason
