"""Completed sets: nothing is missed, the other rows are those of the set without the option."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import complete, grading
from refemu.golden.grade.answers import Answers


def plain(folder: Path, unit: str) -> Path:
    (made,) = golden.generate(folder / "plain", units=[unit], kinds=["paper"])
    return Path(made.path)


@pytest.mark.parametrize("unit", ["flint_decoder:flint4", "olive_mac:wrap"])
@pytest.mark.long
def test_completed_sets_miss_nothing(unit: str, tmp_path: Path) -> None:
    before = plain(tmp_path, unit)
    (made,) = golden.generate(tmp_path / "more", units=[unit], kinds=["paper"], complete=True)
    few, more = golden.load(before), golden.load(made.path)
    grade = golden.grade_set(made.path)

    assert any(counts.missed for counts in golden.grade_set(before).classes.values())
    assert not any(counts.missed for counts in grade.classes.values()) and len(grade.classes) == 9
    assert made.kinds["fault"] == made.rows - made.kinds["paper"]
    rows = few.manifest["rows"]
    for name, array in few.arrays.items():
        assert np.array_equal(array, more.arrays[name][:rows])


def test_manifest_says_how_and_check_recomputes(tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["flint_decoder"], kinds=["paper"], complete=["bits", "use"])
    manifest = golden.load(tmp_path / "flint_decoder-flint4").manifest
    (checked,) = golden.check(tmp_path).sets

    assert manifest["generator"]["fault"] == {
        "function": "grade.complete",
        "seed": 0,
        "classes": ["bits", "use"],
        "prove": 0,
    }
    added = [entry for entry in manifest["cases"] if entry["kind"] == "fault"]
    assert added and all(entry["source"]["faults"] and entry["why"].endswith("detected here") for entry in added)
    assert checked.how == "hashes only" and not checked.findings and "--complete" in checked.note


def test_changed_answer_of_added_row_is_found(tmp_path: Path) -> None:
    (made,) = golden.generate(tmp_path, units=["flint_decoder"], kinds=["paper"], complete=["bits"])
    again = golden.generate(tmp_path / "again", units=["flint_decoder"], kinds=["paper"], complete=["bits"])[0]

    assert Path(made.path, "vectors.npz").read_bytes() == Path(again.path, "vectors.npz").read_bytes()
    assert made.self_sha256 == again.self_sha256


def test_complete_cases_need_no_rows(tmp_path: Path) -> None:
    """All 16 codes miss nothing: the set with the option is the set without it."""
    sets = [
        golden.generate(tmp_path / str(how), units=["flint_decoder"], kinds=["exhaustive"], complete=how)[0]
        for how in (False, True)
    ]

    assert sets[0].self_sha256 == sets[1].self_sha256 and "fault" not in sets[1].kinds


def test_fault_without_added_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find("flint_decoder")
    cases = list(unit.cases(unit.configs["flint4"], "paper", 0))

    def wrong(answers: Answers) -> np.ndarray:
        return np.full(answers.rows, bool(answers.inputs), np.bool_)

    monkeypatch.setattr(
        grading, "LIBRARY", {**grading.LIBRARY, "bits": lambda answers: iter([Fault("shy", "it hides", program=wrong)])}
    )
    with pytest.raises(Refused, match="every missed fault of flint_decoder, got none for shy; leave out its class"):
        complete.added(unit, "flint4", cases, 0, ["bits"])
