"""docs/decisions.md, the code and the tests name the same decisions."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ID = re.compile(r"D-[a-z]+-\d+")


def ids(folder: str) -> set[str]:
    """Every decision named in the Python files of a folder."""
    return {found for path in (ROOT / folder).rglob("*.py") for found in ID.findall(path.read_text())}


def documented() -> set[str]:
    return set(re.findall(r"^### (D-[a-z]+-\d+) ", (ROOT / "docs" / "decisions.md").read_text(), re.MULTILINE))


def test_every_decision_in_the_code_is_documented() -> None:
    assert ids("refemu") - documented() == set()


def test_every_documented_decision_is_taken_in_the_code() -> None:
    assert documented() - ids("refemu") == set()


def test_every_documented_decision_is_pinned_by_a_test() -> None:
    assert documented() - ids("tests") == set()
