"""Answers of the sets of fake units."""

from pathlib import Path

import pytest

from refemu import golden
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers


@pytest.fixture
def blender(made: Path) -> Answers:
    """A combinational unit: two signed lanes, a float whose mask has gaps, a bit."""
    return answers_of.of_set(golden.load(made / "blender-wrap"))


@pytest.fixture
def meter(made: Path) -> Answers:
    """An event unit with cases of three rows, then of two."""
    return answers_of.of_set(golden.load(made / "meter-w4"))
