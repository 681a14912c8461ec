"""Every input of the corpus, and every valid input of a target, ends with a value or an error of one line."""

from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.fuzz.targets import TARGETS, attempt

CORPUS = Path(__file__).with_name("corpus")
STORED = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", TARGETS)
def test_valid_input_is_read(name: str, tmp_path: Path) -> None:
    """Each target accepts its first seed; otherwise a search would not get past the first error."""
    for data in seeds.initial()[name]:
        assert attempt(name, data, tmp_path) == ""
    TARGETS[name].run(seeds.initial()[name][0], tmp_path)


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_stored_input_ends_properly(path: Path, tmp_path: Path) -> None:
    assert attempt(path.parent.name, path.read_bytes(), tmp_path) == ""
