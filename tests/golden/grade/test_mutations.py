"""Small changes of a source, in every possible place."""

from pathlib import Path

import pytest

from refemu.golden.grade.mutations import mutations

ROOT = Path(__file__).resolve().parents[3]
SOURCE = '''"""Clamps."""

from typing import Literal


def clamp(x: int, *, wide: bool = False, most: int | None = None) -> int:
    """At most 15, or 31."""
    top = (31 if wide else 1 << 4) - (not wide)
    if x < 0 and x != -1:
        raise ValueError(f"negative, got {x + 1}")
    log[x] = top
    return min(x, top)


log: dict[int, Literal[7]] = {}
'''


def changes(source: str) -> set[tuple[str, str, str]]:
    return {(each.kind, each.old, each.new) for each in mutations(source)}


def test_every_place_is_changed_in_every_way() -> None:
    """Types, messages, docstrings and imports are not changed."""
    assert changes(SOURCE) == {
        ("default", "False", "True"),
        ("default", "None", "1"),
        ("operator", "(31 if wide else 1 << 4) - (not wide)", "((31 if wide else 1 << 4) + (not wide))"),
        ("constant", "31", "32"),
        ("constant", "31", "(30)"),
        ("constant", "1", "2"),
        ("constant", "1", "(0)"),
        ("constant", "4", "5"),
        ("constant", "4", "(3)"),
        ("shift", "4", "(4 + 1)"),
        ("not", "not wide", "(wide)"),
        ("comparison", "x < 0", "(x <= 0)"),
        ("comparison", "x != -1", "(x == -1)"),
        ("and/or", "x < 0 and x != -1", "(x < 0 or x != -1)"),
        ("constant", "0", "1"),
        ("constant", "0", "(-1)"),
        ("statement", "log[x] = top", "pass"),
        ("return", "return min(x, top)", "return 0"),
        ("min/max", "min", "max"),
    }


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("n += 1", ("operator", "n += 1", "n -= 1")),
        ("n += 1", ("statement", "n += 1", "pass")),
        ("close()", ("statement", "close()", "pass")),
        ("np.maximum(x, 0)", ("min/max", "np.maximum", "np.minimum")),
        ("x is None", ("comparison", "x is None", "(x is not None)")),
        ("run(x, jit=True)", ("flag", "True", "False")),
        ("é = a & b", ("operator", "a & b", "(a | b)")),
    ],
)
def test_a_place_is_changed(source: str, change: tuple[str, str, str]) -> None:
    assert change in changes(source)


def test_every_change_leaves_a_source_that_parses() -> None:
    for name in ("refemu/arith/rounding.py", "refemu/units/kllm/orizuru/orizuru.py"):
        source = (ROOT / name).read_text()
        changed = [each.apply(source) for each in mutations(source)]

        assert len(changed) > 20 and source not in changed
        for text in changed:
            compile(text, name, "exec")
