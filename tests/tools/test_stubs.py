"""The stub of refemu.units: what editors and type checkers read of names, units and Results."""

import ast

import pytest

from refemu import units
from tools import stubs


@pytest.fixture(scope="module")
def text() -> str:
    return stubs.text()


@pytest.mark.parametrize(
    "line",
    [
        'def find(name: Literal["orizuru"]) -> _OrizuruUnit: ...',
        "    decodes: int\n",
        "outlier: tuple[int, int] = ...",
        "from refemu.units.kllm import orizuru as orizuru\n",
    ],
)
def test_it_tells_fields_parameters_and_modules(text: str, line: str) -> None:
    assert line in text


def test_every_public_name_is_in_the_stub(text: str) -> None:
    """Else type checkers take a function that is there for none."""
    defined: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            defined |= {each.asname or each.name for each in node.names}
        if isinstance(node, ast.FunctionDef):
            defined.add(node.name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)

    assert set(units.__all__) - defined == set()


def test_every_unit_is_in_the_stub(text: str) -> None:
    for name, paper in units.PAPERS.items():
        assert f'@overload\ndef find(name: Literal["{name}"]) -> ' in text
        assert f"from refemu.units.{paper} import {name} as {name}\n" in text


def test_the_stub_is_installed() -> None:
    assert "refemu.units = __init__.pyi" in (stubs.PLACE.parents[2] / "setup.cfg").read_text()
