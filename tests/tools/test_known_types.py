"""The tool that asks type checkers about every call in README, docs and docstrings; the checkers run in `make lint`."""

import pytest

from tools import known_types
from tools.known_types import Call

SEEN = [Call(checker, "planted", "f()", "Unknown") for checker in ("pyright", "mypy")]


def test_every_call_is_revealed_arguments_too() -> None:
    assert known_types.revealing("t = f(g(1)).pack()") == "t = reveal_type(reveal_type(f(reveal_type(g(1)))).pack())"


def test_calls_of_others_are_not_revealed() -> None:
    source = (
        "import numpy as np\nfrom refemu import formats\ndef mine(x):\n    return x\nmine(np.array(formats.find(1)))"
    )

    assert known_types.revealing(source).endswith("\nmine(np.array(reveal_type(formats.find(1))))")


def test_blocks_of_all_pages_are_read() -> None:
    pages = known_types.pages()

    assert "OVP_INT4.encode" in pages["README.md"] and "np.load" in pages["docs/set-format.md"]


def test_examples_of_docstrings_are_read() -> None:
    pages = known_types.pages()

    assert 'models.load("smollm2-135m")' in pages["refemu.models"] and "golden.diff(" in pages["refemu.golden"]
    assert "hold(" in pages["refemu.testing"]


def test_example_is_distinct_from_text() -> None:
    text = "Compute x.\n\nSee `run` (below).\n\n    from refemu import units\n\n    units.find('x')\n\nReturns\n"

    assert known_types.example(text) == "from refemu import units\nunits.find('x')"


@pytest.mark.parametrize(
    ("shown", "known"),
    [
        ("Any", False),
        ("list[Unknown]", False),
        ("dict[str, Any]", False),
        ("OvpTensor", True),
        ("ndarray[tuple[Any, ...], dtype[Any]]", True),
        ("dict[str, ndarray[_AnyShape, dtype[floating[_32Bit]]]]", True),
        ("tuple[ndarray[_AnyShape, dtype[Any]], Any]", False),
    ],
)
def test_a_type_that_no_editor_knows_is_seen(shown: str, known: bool) -> None:
    assert Call("pyright", "README.md", "f(x)", shown).known == known


def test_correct_types_give_no_errors() -> None:
    assert list(known_types.complaints(99, 99.5, [*SEEN, Call("mypy", "README.md", "f(x)", "int")])) == []


@pytest.mark.parametrize(
    ("reached", "shown", "complaint"),
    [
        (98.9, SEEN, "99 % of the public symbols must have a known type"),
        (99.5, SEEN[1:], "pyright does not report the planted call of unknown type"),
        (99.5, SEEN[:1], "mypy does not report the planted call of unknown type"),
        (99.5, [*SEEN, Call("mypy", "README.md", "f(x)", "Any")], "README.md: f(x) is Any (mypy)"),
    ],
)
def test_what_is_wrong_is_a_complaint(reached: float, shown: list[Call], complaint: str) -> None:
    assert list(known_types.complaints(99, reached, shown)) == [complaint]
