"""Layers point one way, heavy imports stay where they belong, and every module has its test and its citation."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "refemu"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
LAYERS = ["arith", "formats", "units", "models", "golden", "cli"]
NUMBA_FILES = {"arith/jit.py", "arith/float_jit/scalars.py"}
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) ")
#: modules that hold no mechanism of a paper
UNCITED = {"formats/__init__.py", "formats/field.py", "formats/html.py", "units/__init__.py",
           "units/unit.py", "units/unit_parts.py"}
#: tests/cli/test_main.py, tests/testing/test_plugin.py, test_strategies.py, tests/golden/test_campaign.py
TEST_ELSEWHERE = {"__init__.py", "__main__.py", "cli/__init__.py", "testing/__init__.py", "testing/save.py",
                  "testing/blocks.py", "testing/types.py", "golden/cluster.py"}


def imports(path: Path) -> set[str]:
    """Every module that `path` imports, at any depth of the file."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_down_the_layers(path: Path) -> None:
    layer = path.parts[0]
    inside = {name.split(".")[1] for name in imports(path) if name.startswith("refemu.")}
    allowed = (
        {"formats", "units", "golden", "arith", "testing"}
        if layer == "testing"
        else set(LAYERS[: LAYERS.index(layer) + 1] if layer in LAYERS else LAYERS)
    )

    assert inside & {*LAYERS, "testing"} <= allowed


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_numba_and_hypothesis_stay_in_their_files(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}

    assert not {"numba", "llvmlite"} & roots or path.as_posix() in NUMBA_FILES
    assert "hypothesis" not in roots or path.parts[0] == "testing"


@pytest.mark.parametrize("path", [p for p in MODULES if p.parts[0] in ("formats", "units")], ids=str)
def test_formats_and_units_cite_their_paper(path: Path) -> None:
    assert path.as_posix() in UNCITED or CITATION.search((PACKAGE / path).read_text())


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_module_has_a_docstring_and_a_test_module(path: Path) -> None:
    tree = ast.parse((PACKAGE / path).read_text())
    name = path.parent.name if path.name == "__init__.py" else path.stem
    words = name.split("_")  # `orizuru_cases` and `orizuru_parts` are parts of `orizuru`
    candidates = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    expected = [ROOT / "tests" / path.parent / f"test_{candidate}.py" for candidate in candidates]
    expected += [ROOT / "tests" / path.parent.parent / f"test_{path.parent.name}.py"] if path.parent.parts[1:] else []

    assert ast.get_docstring(tree)
    assert path.as_posix() in TEST_ELSEWHERE or any(test.exists() for test in expected)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_docstrings_name_real_parameters(path: Path) -> None:
    """A line `name: ...` or `name (shape): ...` that opens a paragraph of a docstring is about a parameter or field."""
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if not isinstance(node, ast.FunctionDef) or not ast.get_docstring(node):
            continue
        arguments = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        described = re.findall(r"^([a-z_][a-z0-9_]*): ", ast.get_docstring(node) or "", re.MULTILINE)
        assert set(described) <= arguments, f"{path}:{node.lineno} {node.name}"


def test_public_functions_have_docstrings() -> None:
    missing = []
    for path in MODULES:
        tree = ast.parse((PACKAGE / path).read_text())
        missing += [
            f"{path}:{node.lineno} {node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]

    assert missing == []


def test_import_of_refemu_brings_neither_numba_nor_scipy() -> None:
    layers = "refemu, refemu.arith, refemu.formats, refemu.units, refemu.models, refemu.golden, refemu.cli"
    code = f"import {layers}; import sys; print(sorted({{'numba', 'scipy', 'hypothesis', 'rich'}} & set(sys.modules)))"

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in MODULES
        if p.parts[0] == "units"
        and p.name not in ("__init__.py", "unit.py")
        and not p.stem.endswith(("_jit", "_cases", "_parts"))
    ],
    ids=str,
)
def test_unit_has_a_twin_with_the_same_arguments(path: Path) -> None:
    unit = importlib.import_module(f"refemu.units.{path.stem}").UNIT

    assert unit.name == path.stem
    assert inspect.signature(unit.run).parameters.keys() == inspect.signature(unit.run_jit).parameters.keys()
