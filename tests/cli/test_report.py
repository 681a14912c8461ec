"""`refemu report`: files, table and exit codes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.cli import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    golden.generate(tmp_path, units=["outlier_decoder:e2m1"], kinds=["paper"])
    arrays = golden.load(tmp_path / "outlier_decoder-e2m1").arrays
    answers = {name: array for name, array in arrays.items() if name.startswith("out.") and ".care" not in name}
    np.savez(tmp_path / "outlier_decoder-e2m1.answers.npz", **answers)
    return tmp_path


def test_report_writes_three_files_and_prints_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^outlier_decoder-e2m1  pass .* \d+ of [1-9]\d*$", out, re.MULTILINE)
    assert out.endswith("1 pass\n")
    assert {path.name for path in run.glob("report.*")} == {"report.xml", "report.json", "report.html"}
    assert main(["report", str(run), "--grade", "none"]) == 0  # its own files are not answers
    assert json.loads((run / "report.json").read_text())["sets"][0]["coverage"]["grade"] is None


def test_differing_device_exits_with_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = run / "outlier_decoder-e2m1.answers.npz"
    with np.load(place) as arrays:
        np.savez(place, **{name: arrays[name] ^ 1 for name in arrays.files})
    assert main(["report", str(run), "--grade", "none"]) == 1
    assert "refemu diff" in capsys.readouterr().out
    place.unlink()
    assert main(["report", str(run), "--grade", "none"]) == 2
    assert "no answer" in capsys.readouterr().out


def test_option_selects_form_and_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--grade", "none", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "pass"
    assert main(["report", str(run), "--grade", "none", "--junit", str(run / "a.xml")]) == 0
    assert list(run.glob("report.*")) == [] and (run / "a.xml").read_text().startswith("<?xml")


def test_invalid_folders_and_files_are_rejected(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run / "none")]) == 2
    assert main(["report", str(run), "--grade", "fats"]) == 2
    assert main(["report", str(run), "--html", str(run)]) == 2
    assert "must be a file" in capsys.readouterr().err
