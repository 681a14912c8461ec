"""A few cases that detect what a stimulus misses."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.grade import additions
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.grading import Grading
from refemu.golden.grade.pool import Pool
from refemu.units.unit import Cases
from tests.golden import fakes

POOR = Cases("edge", "one row", {"first": np.array([1]), "second": np.array([1])})


def poor() -> Grading:
    answers = answers_of.of_cases(fakes.BLENDER, fakes.BLENDER.configs["wrap"], [POOR])
    return Grading("poor", answers, Pool(fakes.BLENDER, "wrap", 0, 24))


def test_written_cases_detect_missed_faults(fake_units: None, tmp_path: Path) -> None:
    first = poor()
    assert not first.grade.passes and first.grade.classes["bits"].missed > 20

    target = additions.write(first, tmp_path)
    assert target == tmp_path / "blender-wrap"
    written = answers_of.of_set(golden.load(target))
    assert written.rows < 20
    both = Answers(fakes.BLENDER, written.config, [*first.stimulus.blocks, *written.blocks])
    assert Grading("both", both, first.pool).grade.passes


def test_written_set_passes_check_with_its_source(fake_units: None, tmp_path: Path) -> None:
    additions.write(poor(), tmp_path)
    (checked,) = golden.check(tmp_path).sets

    assert checked.how == "hashes only" and "chose these cases" in checked.note
    assert (tmp_path / "blender-wrap" / "hex" / "stim.mem").is_file()  # a bench reads it
    reasons = {entry["why"] for entry in golden.load(tmp_path / "blender-wrap").manifest["cases"]}
    assert any(reason.startswith("detects what poor misses; from: ") for reason in reasons)


def test_nothing_is_written_without_missed_faults(tmp_path: Path) -> None:
    answers = Pool(fakes.BLENDER, "wrap", 0, 24).answers

    assert additions.write(Grading("all", answers, Pool(fakes.BLENDER, "wrap", 0, 24)), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_foreign_folder_is_unchanged(fake_units: None, tmp_path: Path) -> None:
    (tmp_path / "blender-wrap").mkdir()
    (tmp_path / "blender-wrap" / "mine.txt").write_text("mine")

    with pytest.raises(Refused):
        additions.write(poor(), tmp_path)
    assert (tmp_path / "blender-wrap" / "mine.txt").read_text() == "mine"
