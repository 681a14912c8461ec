"""tools/pythons.py names tests that exist: pytest with a wrong path fails in every Python."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tools" / "pythons.py"


def named(source: str) -> list[str]:
    """The test modules that the tool runs, relative to tests/."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TESTS":
            assert isinstance(node.value, ast.ListComp)
            return [str(name) for name in ast.literal_eval(node.value.generators[0].iter)]
    raise AssertionError("no TESTS")


def absent(source: str) -> list[str]:
    """Those of which there is no file."""
    return [name for name in named(source) if not (ROOT / "tests" / f"{name}.py").is_file()]


def test_every_module_is_there() -> None:
    source = SOURCE.read_text()

    assert absent(source) == []
    assert absent(source.replace('"test_home"', '"test_house_of_cards"')) == ["test_house_of_cards"]
