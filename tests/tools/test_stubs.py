"""The stub of refemu.units: what is committed is what the descriptors give, and a difference is seen."""

import ast
from pathlib import Path

import pytest

from refemu import units
from tools import stubs


def test_the_committed_stub_is_what_would_be_written() -> None:
    assert stubs.PLACE.read_text() == stubs.text()


@pytest.mark.parametrize(
    ("line", "planted"),
    [
        ('def find(name: Literal["orizuru"]) -> _OrizuruUnit: ...', 'def find(name: Literal["orizuru"]) -> Any: ...'),
        ("    decodes: int\n", "    decodes: float\n"),
        ("outlier: tuple[int, int] = ...", "outlier: tuple[int, int]"),
        ("from refemu.units.kllm import orizuru as orizuru\n", ""),
    ],
)
def test_a_planted_difference_is_seen(tmp_path: Path, line: str, planted: str) -> None:
    place = tmp_path / "__init__.pyi"
    assert stubs.main([], place) == 0 == stubs.main(["--check"], place)
    assert line in place.read_text()

    place.write_text(place.read_text().replace(line, planted, 1))

    assert stubs.main(["--check"], place) == 1


def test_a_missing_stub_is_seen(tmp_path: Path) -> None:
    assert stubs.main(["--check"], tmp_path / "__init__.pyi") == 1


def test_every_public_name_is_in_the_stub() -> None:
    """Else type checkers take a function that is there for none."""
    defined: set[str] = set()
    for node in ast.parse(stubs.PLACE.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            defined |= {each.asname or each.name for each in node.names}
        if isinstance(node, ast.FunctionDef):
            defined.add(node.name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)

    assert set(units.__all__) - defined == set()


def test_every_unit_is_in_the_stub() -> None:
    text = stubs.PLACE.read_text()

    for name, paper in units.PAPERS.items():
        assert f'@overload\ndef find(name: Literal["{name}"]) -> ' in text
        assert f"from refemu.units.{paper} import {name} as {name}\n" in text


def test_the_stub_is_installed() -> None:
    assert "refemu.units = __init__.pyi" in (stubs.PLACE.parents[2] / "setup.cfg").read_text()
