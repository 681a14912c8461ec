"""The stub of refemu.units: what editors and type checkers read of names, units and Results."""

import ast

import pytest

from refemu import units
from tools import stubs


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Stubs by the name of the folder: "units", then the blocks'."""
    return {place.parent.name: text for place, text in stubs.texts().items()}


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("units", 'def find(name: Literal["orizuru"]) -> orizuru.Descriptor: ...'),
        ("units", "from refemu.units.kllm import orizuru as orizuru\n"),
        ("mmaovp", "    def step(self, a_pairs: Sequence[int] | numpy.ndarray | None = ..., "),
        ("ovp_decoder", "outlier: tuple[int, int] = ..."),
        ("ovp_decoder", "    exponent: tuple[int, ...]\n"),
        ("orizuru", "from refemu.units.kllm.orizuru.trees import levels as levels\n"),
        ("paged_attention", "from refemu.units.leankv.paged_attention.heads import attend as attend\n"),
        ("paged_attention", "from refemu.units.leankv.paged_attention.loads import head_loads as head_loads\n"),
    ],
)
def test_stub_has_fields_parameters_and_modules(texts: dict[str, str], folder: str, line: str) -> None:
    assert line in texts[folder]


def bound(text: str) -> set[str]:
    """Names that a stub binds."""
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_every_public_name_is_in_its_stub(texts: dict[str, str]) -> None:
    """Else type checkers take a function that is there for none."""
    assert set(units.__all__) - bound(texts["units"]) == set()
    missing = {name: set(units.module(name).__all__) - bound(texts[name]) for name in units.PAPERS}
    assert {name: names for name, names in missing.items() if names} == {}


def test_every_unit_is_in_the_stub(texts: dict[str, str]) -> None:
    for name, paper in units.PAPERS.items():
        assert f'@overload\ndef find(name: Literal["{name}"]) -> ' in texts["units"]
        assert f"from refemu.units.{paper} import {name} as {name}\n" in texts["units"]


def test_stubs_are_installed() -> None:
    assert "* = __init__.pyi" in (stubs.PLACE.parents[2] / "setup.cfg").read_text()
