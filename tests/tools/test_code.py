"""The digest of a file's code: sentences do not change it, everything that is computed does."""

from pathlib import Path

import pytest

from tools import code

SOURCE = """
LIMIT: int = 3

def least(a: int, b: int = 0) -> int:
    '''The smaller of two.'''
    return min(a, b, LIMIT)
"""


def digest(text: str, folder: Path) -> str:
    """Digest of a file with this text."""
    path = folder / "module.py"
    path.write_text(text)
    return code.digest(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The smaller of two.", "What is less."),
        ("    '''The smaller of two.'''\n", ""),
        ("a: int, b: int = 0) -> int", "a, b: float = 0)"),
        ("LIMIT)", "LIMIT)  # at most"),
        ("(a, b, LIMIT)", "(\n        a,\n        b,\n        LIMIT,\n    )"),
    ],
)
def test_sentences_and_layout_do_not_count(old: str, new: str, tmp_path: Path) -> None:
    assert old in SOURCE
    assert digest(SOURCE.replace(old, new), tmp_path) == digest(SOURCE, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= 3", "= 4"),
        ("LIMIT: int", "LIMIT: float"),  # of a dataclass it may be read
        ("b: int = 0", "b: int = False"),
        ("min(a, b", "max(a, b"),
        ("min(a, b", "min(b, a"),
        ("def least", "def lesser"),
        ("return min", "yield min"),
    ],
)
def test_what_computes_counts(old: str, new: str, tmp_path: Path) -> None:
    assert old in SOURCE
    assert digest(SOURCE.replace(old, new), tmp_path) != digest(SOURCE, tmp_path)


def test_the_digest_is_one_of_every_python(tmp_path: Path) -> None:
    """A constant, so that another Python's syntax tree shows."""
    assert digest(SOURCE, tmp_path)[:16] == "399734e0be45dc01"
