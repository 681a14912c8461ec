"""Coverage from files: sets, users' stimuli, and errors in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.files import npz
from refemu.golden.grade import entry


def stimulus(path: Path, **arrays: Any) -> Path:
    npz.write(path, {name.replace("_", ".", 1): np.asarray(array) for name, array in arrays.items()})
    return path


def test_a_set_is_graded_with_its_own_answers(made: Path) -> None:
    grade = entry.grade_set(made / "meter-w4", pool=12)

    assert (grade.set, grade.unit, grade.config, grade.rows) == ("meter-w4", "meter", "w4", 12)
    assert grade.classes["order"].detected == 4


def test_stimulus_of_a_set_has_its_grade(made: Path, tmp_path: Path) -> None:
    loaded = golden.load(made / "meter-w4")
    first = np.zeros(12, np.uint8)
    first[[0, 3, 6, 8, 10]] = 1
    mine = tmp_path / "mine.npz"
    npz.write(mine, {**{n: a for n, a in loaded.arrays.items() if n.startswith("in.")}, "first": first})

    grade, whole = entry.grade_stimulus(mine, "meter", pool=12), entry.grade_set(made / "meter-w4", pool=12)
    assert grade.classes == whole.classes and grade.survivors == whole.survivors
    one_case = stimulus(tmp_path / "one.npz", in_add=loaded.arrays["in.add"], in_clear=loaded.arrays["in.clear"])
    assert entry.grade_stimulus(one_case, "meter", pool=12).classes["reset"].detected == 0


def test_missing_cases_complete_a_poor_stimulus(made: Path, tmp_path: Path) -> None:
    poor = stimulus(tmp_path / "poor.npz", in_first=[1, 2], in_second=np.array([1, 255], np.uint8) & 15)
    grade = entry.grade_stimulus(poor, "blender", "wrap", pool=24, missing=tmp_path / "more")

    assert not grade.passes
    lacked = golden.load(tmp_path / "more" / "blender-wrap").arrays
    joined = stimulus(
        tmp_path / "joined.npz",
        in_first=np.concatenate([[1, 2], lacked["in.first"]]),
        in_second=np.concatenate([np.array([1, 15], np.uint8), lacked["in.second"]]),
    )
    assert entry.grade_stimulus(joined, "blender", "wrap", pool=24).passes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"in_add": [1]}, r"must have all inputs of meter, got in\.add; add in\.clear$"),
        ({"out_add": [1]}, r"must have all inputs of meter, got none; add in\.add, in\.clear$"),
        ({"in_add": [1, 2], "in_clear": [1]}, r"in\.clear must have 2 rows, got 1$"),
        ({"in_add": np.zeros(0, np.uint8), "in_clear": np.zeros(0, np.uint8)}, r"in\.add must have 1 rows, got 0$"),
        ({"in_add": [[1]], "in_clear": [1]}, r"in\.add must have shape \(rows\), got \(1, 1\)$"),
        ({"in_add": [9], "in_clear": [1]}, r"9 at index \(0, 0\) is outside \[0, 7\]$"),
        ({"in_add": [1, 2], "in_clear": [1, 0], "first": [0, 1]}, r"first must have shape \(2,\) and begin with 1"),
        ({"in_add": [1, 2], "in_clear": [1, 0], "first": [1]}, r"first must have shape \(2,\)"),
    ],
)
def test_invalid_stimulus_is_rejected(arrays: dict[str, Any], message: str, fake_units: None, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=message):
        entry.grade_stimulus(stimulus(tmp_path / "mine.npz", **arrays), "meter")


def test_invalid_file_is_rejected(fake_units: None, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 no more")

    with pytest.raises(Refused):
        entry.grade_stimulus(tmp_path / "x.npz", "meter")
    with pytest.raises(OSError, match="none"):
        entry.grade_stimulus(tmp_path / "none.npz", "meter")
