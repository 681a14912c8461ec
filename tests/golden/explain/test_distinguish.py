"""Rows that distinguish explanations."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.golden.compare import answer_files
from refemu.golden.explain import distinguish, reruns
from refemu.golden.explain import table as tables
from refemu.golden.explain.diagnosis import Diagnosis
from refemu.golden.explain.guess import Story
from refemu.golden.explain.search import Search
from refemu.golden.files import sets


@pytest.fixture
def path(tmp_path: Path) -> Path:
    golden.generate(tmp_path / "sets", units=["bfp_aligner:paper"], kinds=["paper"])
    return tmp_path / "sets" / "bfp_aligner-paper"


def stories(path: Path, *says: str) -> tuple[Story, ...]:
    rows = sets.load(path)
    right = {name: array for name, array in rows.arrays.items() if name.startswith("out.") and "care" not in name}
    guesses = list(reruns.decisions(tables.whole(rows, answer_files.Answer(right, {}))))
    return tuple(Story((next(each for each in guesses if each.says.endswith(text)),)) for text in says)


def test_written_set_distinguishes_the_rivals(path: Path, tmp_path: Path) -> None:
    rivals = stories(path, "rounding is 'half_even'", "rounding is 'half_away'")
    target = distinguish.write(path, Diagnosis(rivals=rivals), tmp_path / "missing")

    assert target == tmp_path / "missing" / "bfp_aligner-paper"
    rows = sets.load(target)
    right = {name: array for name, array in rows.arrays.items() if name.startswith("out.") and "care" not in name}
    search = Search(tables.whole(rows, answer_files.Answer(right, {})))
    first, second = (search.predicted(story).words["out.mantissa"] for story in rivals)
    assert np.any(first != second)
    assert golden.check(tmp_path / "missing").equal


def test_no_rivals_give_no_set(path: Path, tmp_path: Path) -> None:
    (alone,) = stories(path, "rounding is 'half_even'")
    assert distinguish.write(path, Diagnosis(rivals=(alone,)), tmp_path / "missing") is None
    assert distinguish.write(path, Diagnosis(rivals=(alone, alone)), tmp_path / "missing") is None
    assert not (tmp_path / "missing").exists()
