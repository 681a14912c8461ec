"""docs/decisions.md, the code and the tests name the same decisions, and every entry names a test that asserts it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ID = re.compile(r"D-[a-z]+-\d+")
ENTRY = re.compile(r"^### (D-[a-z]+-\d+) (.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"^Pinned by `(tests/[\w/]+\.py)::(test_\w+)`\.$", re.MULTILINE)


def ids(folder: str) -> set[str]:
    """Every decision named in the Python files of a folder."""
    return {found for path in (ROOT / folder).rglob("*.py") for found in ID.findall(path.read_text())}


def documented() -> dict[str, str]:
    """The entries by their ids."""
    return dict(ENTRY.findall((ROOT / "docs" / "decisions.md").read_text()))


def complaint(decision: str, entry: str) -> str:
    """What is wrong with the test that an entry names; empty if nothing is."""
    pins = PIN.findall(entry)
    if len(pins) != 1:
        return "must name one test: Pinned by `tests/...::test_...`."
    path, name = pins[0]
    source = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            parts = [node, *node.decorator_list]
            said = [
                part.value
                for each in parts
                for part in ast.walk(each)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            return "" if decision in ID.findall(" ".join(said)) else f"{path}::{name} does not name it"
    return f"there is no {path}::{name}"


def test_every_decision_in_the_code_is_documented() -> None:
    assert ids("refemu") - documented().keys() == set()


def test_every_documented_decision_is_taken_in_the_code() -> None:
    assert documented().keys() - ids("refemu") == set()


def test_every_decision_names_the_test_that_pins_it() -> None:
    wrong = {decision: complaint(decision, entry) for decision, entry in documented().items()}

    assert {decision: why for decision, why in wrong.items() if why} == {}


@pytest.mark.parametrize(
    ("decision", "entry", "why"),
    [
        ("D-arith-4", "Text, and # D-arith-4 in a comment of a test.\n", "must name one test"),
        ("D-arith-4", "Pinned by `tests/arith/test_none.py::test_order_is_mandatory`.\n", "there is no"),
        ("D-arith-4", "Pinned by `tests/arith/test_sums.py::test_nothing`.\n", "there is no"),
        ("D-arith-99", "Pinned by `tests/arith/test_sums.py::test_order_is_mandatory`.\n", "does not name it"),
        ("D-arith-4", "Pinned by `tests/arith/test_sums.py::test_order_is_mandatory`.\n", ""),
    ],
)
def test_an_entry_that_no_test_pins_is_seen(decision: str, entry: str, why: str) -> None:
    """A mention in the code, in a comment or in another test is no pin."""
    found = complaint(decision, entry)

    assert why in found and bool(found) == bool(why)
