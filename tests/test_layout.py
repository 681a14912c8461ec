"""Layers point one way, heavy imports stay where they belong, and every module has its test and its citation."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import house_rules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "refemu"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
LAYERS = ["arith", "formats", "units", "models", "golden", "cli"]
NUMBA_FILES = {"arith/jit.py", "arith/float_jit/scalars.py"}
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) ")
#: modules that hold no mechanism of a paper
UNCITED = {
    "formats/__init__.py",
    "formats/field.py",
    "formats/html.py",
    "units/__init__.py",
    "units/unit.py",
    "units/unit_parts.py",
}
#: whoever uses hypothesis finds the strategies of formats there; what a manifest calls sets that a test saved
UPWARDS = {"formats/__init__.py": {"testing"}, "golden/generator_remake.py": {"testing"}}
#: tests/cli/test_main.py, tests/testing/test_plugin.py, test_strategies.py, tests/golden/test_campaign.py
TEST_ELSEWHERE = {
    "__init__.py",
    "__main__.py",
    "cli/__init__.py",
    "testing/__init__.py",
    "testing/save.py",
    "testing/blocks.py",
    "testing/types.py",
    "golden/cluster.py",
}


def imports(path: Path) -> set[str]:
    return house_rules.imports((PACKAGE / path).read_text())


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_down_the_layers(path: Path) -> None:
    inside = house_rules.layers((PACKAGE / path).read_text())

    assert inside & {*LAYERS, "testing"} <= allowed(path.parts[0]) | UPWARDS.get(path.as_posix(), set())


def allowed(layer: str) -> set[str]:
    """The layers that this one may name, in an import or in a string."""
    if layer == "testing":
        return {"formats", "units", "golden", "arith", "testing"}
    return set(LAYERS[: LAYERS.index(layer) + 1] if layer in LAYERS else LAYERS)


@pytest.mark.parametrize(
    "line",
    [
        "from refemu.golden import sets",
        "import refemu.cli.main",
        "importlib.import_module('refemu.golden')",
        "TWIN = 'refemu.models.schemes.olive:run'",
        "import_module(f'refemu.golden.{name}')",
    ],
)
def test_an_import_that_points_up_is_seen(line: str) -> None:
    """In a function and in a string too."""
    layers = house_rules.layers(f"def up():\n    {line}\n")

    assert layers and not layers <= allowed("units")


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
    """Wherever a sentence of a docstring begins with `name: ...`, `name (shape): ...` or `a, b: ...`."""
    assert list(house_rules.undescribed((PACKAGE / path).read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "acc_innn: int32.",
        "Adds. acc_innn: int32.",
        "Adds.\n\n    acc_innn (N,): int32.",
        "Adds two words;\n    acc, acc_innn: int32.",
    ],
)
def test_a_parameter_that_is_not_there_is_seen(text: str) -> None:
    source = f'def add(acc, acc_in):\n    """{text}"""\n'

    assert list(house_rules.undescribed(source)) == ["1 add: acc_innn"]
    assert list(house_rules.undescribed(source.replace("acc_innn", "acc_in"))) == []


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
    assert arguments(unit.run) == arguments(unit.run_jit)


def arguments(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults."""
    return [(name, each.kind, each.default) for name, each in inspect.signature(function).parameters.items()]


def test_another_default_of_a_twin_is_seen() -> None:
    """It would give other bits where nobody names the parameter."""

    def readable(x: int, *, preset: str = "paper") -> int:
        return x

    def twin(x: int, *, preset: str = "diffkv") -> int:
        return x

    assert arguments(readable) != arguments(twin)
