"""A difference as text and as a JSON document."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.golden.compare import diff_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    golden.generate(tmp_path, units=["bfp_aligner:paper"], kinds=["paper"])
    return tmp_path / "bfp_aligner-paper"


def difference(folder: Path, flip: int, explain: bool = False) -> golden.Difference:
    arrays = golden.load(folder).arrays
    answers = {name: array.copy() for name, array in arrays.items() if name.startswith("out.") and "care" not in name}
    answers["out.mantissa"][0, 6] ^= flip
    np.savez(folder.parent / "dut.npz", **answers)
    return golden.diff(folder, folder.parent / "dut.npz", explain=explain)


def test_equal_is_one_line(folder: Path) -> None:
    (line,) = diff_text.lines(difference(folder, 0))
    assert "rows equal in out." in line


def test_place_comes_first_and_explanation_last(folder: Path) -> None:
    lines = diff_text.lines(difference(folder, 1, explain=True))
    assert lines[0].startswith("bfp_aligner-paper: row 0 of case 0, paper/")
    assert "  out.mantissa, lane 6" in lines and any("lane 6 of 8: 0x" in line for line in lines)
    assert lines.index(next(line for line in lines if "rows differ" in line)) < lines.index(
        next(line for line in lines if line.startswith("diagnosis:"))
    )
    assert not any("lane 6 of 8" in line for line in diff_text.lines(difference(folder, 1), full=True))


def test_document_has_all_fields_except_objects(folder: Path) -> None:
    document = diff_text.document(difference(folder, 1))
    assert (document["equal"], document["wrong_rows"], document["searched"]) == (False, 1, {})
    assert document["first"]["lane"] == 6 and document["where"]["ports"] == {"mantissa": 1}
    assert diff_text.document(difference(folder, 0))["first"] is None
