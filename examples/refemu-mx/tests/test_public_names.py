"""The package uses only names of refemu that docs/plugin-reference.md lists: their modules' `__all__`."""

import ast
import importlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

PUBLIC = ("refemu", "refemu.arith", "refemu.arith.jit", "refemu.formats", "refemu.units", "refemu.units.stimuli")
PUBLIC += ("refemu.models", "refemu.golden", "refemu.testing")


def private(source: str) -> Iterator[str]:
    """Names of refemu that a source imports, or reaches by an attribute, and that are not public."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("refemu.") and each.name not in PUBLIC)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "refemu":
            module = importlib.import_module(str(node.module))
            known = set(getattr(module, "__all__", ())) if node.module in PUBLIC else set()
            packages = {name.rpartition(".")[2] for name in PUBLIC if name.rpartition(".")[0] == node.module}
            yield from (f"{node.module}.{each.name}" for each in node.names if each.name not in known | packages)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node.attr if not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls") else ""


def test_only_public_names_are_used() -> None:
    paths = [*Path(str(resources.files("refemu_mx"))).rglob("*.py"), *Path(__file__).parent.glob("*.py")]
    assert len(paths) > 15
    for path in paths:
        assert [name for name in private(path.read_text()) if name] == [], path


def test_private_name_is_detected() -> None:
    assert list(private("from refemu.units.derivation import readable")) == ["refemu.units.derivation.readable"]
    assert list(private("from refemu.units import descriptor_rules")) == ["refemu.units.descriptor_rules"]
    assert list(private("import refemu.arith.checks")) == ["refemu.arith.checks"]
    assert list(private("unit._checked()")) == ["_checked"]
