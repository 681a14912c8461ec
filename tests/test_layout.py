"""The rules of the house: where modules stand, what they import, and that each has its test and its citation."""

import ast
import functools
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refemu import units
from tests import house_graph, house_rules
from tests.syntax_rules import tree

#: the first of them reads what every module imports
pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "refemu"
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
NUMBA_FILES = {"arith/jit/__init__.py", "arith/jit/digest.py", "arith/float_jit/scalars.py"}
CITATION = re.compile(r"\[(olive|kllm|harmonia|leankv) ")
#: modules that hold no mechanism of a paper
UNCITED = {
    "draw/__init__.py",
    "draw/entries.py",
    "draw/registry.py",
    "draw/svg.py",
    "draw/values.py",
    "draw/word.py",
    "formats/__init__.py",
    "formats/code_format.py",
    "formats/field.py",
    "formats/html.py",
    "formats/spelling.py",
    "units/__init__.py",
    "units/comments.py",
    "units/compiled/__init__.py",
    "units/compiled/bounds.py",
    "units/compiled/form.py",
    "units/compiled/lifted.py",
    "units/compiled/placed.py",
    "units/compiled/scalars.py",
    "units/declared.py",
    "units/alternative.py",
    "units/clocked.py",
    "units/config.py",
    "units/consistent.py",
    "units/parameters.py",
    "units/unit.py",
    "units/ports.py",
    "units/stepped.py",
    "units/derived.py",
    "units/described.py",
    "units/events.py",
    "units/faults.py",
    "units/kernels/clocked.py",
    "units/shown.py",
    "units/spelled.py",
    "units/kernels/packing.py",
}
#: modules that tests elsewhere hold: a reason is where
TEST_ELSEWHERE = {
    "refemu.cli.options.common": "tests/cli/test_arguments.py",
    "refemu.cli.options.devices": "tests/cli/test_arguments.py",
    "refemu.cli.options.models": "tests/cli/test_arguments.py",
    "refemu.cli.options.sets": "tests/cli/test_arguments.py",
    "refemu.cli.options.studies": "tests/cli/test_arguments.py",
    "refemu.cli.unit_rows": "tests/cli/test_list.py",
    "refemu.testing.blocks": "tests/testing/test_plugin.py",
    "refemu.testing.save": "tests/testing/test_plugin.py",
    "refemu.testing.types": "tests/testing/test_strategies.py",
}
SOURCES = house_graph.sources(PACKAGE)
TESTS = {house_graph.module(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}


@functools.cache  # not while tests are collected: every worker would wait for it
def graph() -> list[house_graph.Edge]:
    """What the modules of the package import."""
    return house_graph.edges(SOURCES)


def imports(path: Path) -> set[str]:
    return house_rules.imports((PACKAGE / path).read_text())


def with_module(name: str, text: str) -> tuple[list[house_graph.Edge], dict[str, str]]:
    """The house with a module planted, or changed."""
    texts = SOURCES | {name: text}
    rest = [edge for edge in graph() if edge.source != name]
    return rest + house_graph.needs(name, text, set(texts)), texts


def test_imports_point_down_the_layers() -> None:
    assert house_graph.upward(graph()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from refemu.golden.files import sets",
        "import refemu.cli.main",
        "importlib.import_module('refemu.golden')",
        "TWIN = 'refemu.models.schemes.olive:run'",
        "from refemu.draw.olive import pair",
    ],
)
def test_an_import_that_points_up_is_seen(line: str) -> None:
    """In a function and in a string too."""
    planted, _ = with_module("refemu.units.olive.planted", f"def up():\n    {line}\n")

    assert [edge.split(" ")[0] for edge in house_graph.upward(planted)] == ["refemu.units.olive.planted"]


@pytest.mark.parametrize(
    ("name", "line", "seen"),
    [
        ("refemu.units.olive.planted", "DRAWING = 'refemu.draw.olive.pair:decoder'", 0),
        ("refemu.arith.planted", "DRAWING = 'refemu.draw.olive.pair:decoder'", 1),
        ("refemu.models.planted", "from refemu.draw import svg", 1),
        ("refemu.draw.planted", "from refemu.models import runtime", 1),
        ("refemu.golden.planted", "from refemu.draw import svg", 0),
    ],
)
def test_drawings_are_named_by_strings_below_them(name: str, line: str, seen: int) -> None:
    """And `draw` and `models` know nothing of each other."""
    planted, _ = with_module(name, f"{line}\n")

    assert len(house_graph.upward(planted)) == seen


def test_nothing_of_a_paper_imports_anything_of_another() -> None:
    assert house_graph.across(graph()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from refemu.units.kllm import orizuru",
        "from refemu.formats.kllm.kmeans import KMeans",
        "NAME = 'refemu.units.kllm.orizuru.compiled:run'",
    ],
)
def test_another_paper_is_seen(line: str) -> None:
    planted, _ = with_module("refemu.units.olive.ovp_decoder.compiled", f"def across():\n    {line}\n")

    assert len(house_graph.across(planted)) == 1


def test_shared_modules_name_no_paper() -> None:
    assert house_graph.named(graph()) == []


def test_a_shared_module_that_names_a_paper_is_seen() -> None:
    planted, _ = with_module("refemu.units.planted", "from refemu.units.kllm import orizuru\n")

    assert house_graph.named(planted) == ["refemu.units.planted -> refemu.units.kllm.orizuru"]


def test_compiled_code_is_imported_where_a_function_needs_it() -> None:
    assert house_graph.compiled(graph()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from refemu.units.kllm.orizuru import compiled as orizuru_jit",
        "from refemu.arith import jit",
        "from refemu.arith.float_jit import exp_all",
    ],
)
def test_an_early_import_of_compiled_code_is_seen(line: str) -> None:
    planted, _ = with_module("refemu.units.kllm.planted", line + "\n")
    later, _ = with_module("refemu.units.kllm.planted", f"def run():\n    {line}\n")

    assert len(house_graph.compiled(planted)) == 1
    assert len(house_graph.compiled(later)) == ("arith import jit" in line)


def test_cases_and_inner_files_stay_inside_their_blocks() -> None:
    assert {edge.split(" ")[0] for edge in house_graph.inner(graph(), SOURCES)} == set()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("refemu.models.schemes.kllm.planted", "from refemu.units.kllm.orizuru import cases as orizuru_cases"),
        ("refemu.units.kllm.clustering.clustering", "from refemu.units.kllm.orizuru.trees import Tree"),
        ("refemu.units.kllm.orizuru.cases", "from refemu.units.kllm.orizuru.orizuru import UNIT"),
        ("refemu.units.kllm.concat.cases", "from refemu.units.kllm.orizuru import cases as orizuru_cases"),
    ],
)
def test_a_reach_into_a_block_is_seen(name: str, line: str) -> None:
    planted, texts = with_module(name, line + "\n")

    assert name in {edge.split(" ")[0] for edge in house_graph.inner(planted, texts)}


def test_no_module_needs_itself() -> None:
    """Nor through imports in functions, for type checkers, or in the packages above."""
    assert {group[0] for group in house_graph.circles(graph(), SOURCES)} == set()


@pytest.mark.parametrize(
    "line",
    [
        "def late():\n    from refemu.arith.fp16 import value",
        "if TYPE_CHECKING:\n    from refemu.arith.fp16 import value",
    ],
)
def test_a_circle_is_seen(line: str) -> None:
    planted, texts = with_module("refemu.arith.bits", line + "\n")

    assert any("refemu.arith.bits" in group for group in house_graph.circles(planted, texts))


def test_every_module_has_a_test_module_at_the_mirrored_path() -> None:
    assert set(house_graph.untested(graph(), SOURCES, TESTS)) == set(TEST_ELSEWHERE)
    assert all((ROOT / place).is_file() for place in TEST_ELSEWHERE.values())


@pytest.mark.parametrize(
    "name",
    [
        "refemu.formats.olive.ovp_planted",
        "refemu.units.kllm.orizuru_planted",
        "refemu.formats.kllm.twins.planted",
        "refemu.golden.campaign.planted",
    ],
)
def test_a_module_without_its_test_is_seen(name: str) -> None:
    """A prefix of its name does not count."""
    planted, texts = with_module(name, '"""Twice x."""\n')

    assert name in house_graph.untested(planted, texts, TESTS)


def test_twins_and_cases_are_imported_under_names_of_their_own() -> None:
    assert house_graph.misnamed(graph()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from refemu.units.kllm.orizuru import compiled as orizuru",
        "from refemu.units.kllm.orizuru import cases as orizuru",
    ],
)
def test_a_twin_under_the_name_of_its_unit_is_seen(line: str) -> None:
    planted, _ = with_module("refemu.units.kllm.planted", f"def run():\n    {line}\n")

    assert len(house_graph.misnamed(planted)) == 1


def test_no_folder_is_too_large_to_read() -> None:
    """At most 30 files, of the package and of its tests."""
    files = [path for folder in (PACKAGE, ROOT / "tests") for path in folder.rglob("*.py")]
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)

    assert {folder: count for folder, count in counts.items() if count > 30} == {}


def test_numba_and_hypothesis_stay_in_their_files() -> None:
    users = {
        root: {path for path in MODULES if root in {name.split(".")[0] for name in imports(path)}}
        for root in ("numba", "llvmlite", "hypothesis")
    }

    assert {path.as_posix() for path in users["numba"] | users["llvmlite"]} == NUMBA_FILES
    assert {path.parts[0] for path in users["hypothesis"]} == {"testing"}


def test_formats_and_units_cite_their_paper() -> None:
    blocks = [
        path.as_posix()
        for path in MODULES
        if path.parts[0] in ("formats", "units")
        and path.name != "__init__.py"
        and "variants" not in (*path.parts, path.stem)
    ]

    assert [path for path in blocks if path not in UNCITED and not CITATION.search((PACKAGE / path).read_text())] == []


def test_modules_have_docstrings_that_name_real_parameters() -> None:
    """Wherever a sentence of a docstring begins with `name: ...`, `name (shape): ...` or `a, b: ...`."""
    assert [name for name, text in SOURCES.items() if not ast.get_docstring(tree(text))] == []
    wrong = {name: list(house_rules.undescribed(text)) for name, text in SOURCES.items()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


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


def test_local_names_are_nouns_of_the_field() -> None:
    wrong = {name: list(house_rules.vague(text)) for name, text in SOURCES.items()}

    assert {name: lines for name, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "found = x",
        "made, y = x",
        "y = [one for one in x]",
        "for own in x: pass",
        "y = lambda given: given",
        "if (told := x): pass",
    ],
)
def test_a_name_that_says_nothing_is_seen(line: str) -> None:
    """In a parameter too; an attribute is no local name."""
    assert len(list(house_rules.vague(f"def f(x):\n    {line}\n"))) == 1
    assert list(house_rules.vague("def f(led):\n    return led\n")) == ["1 f: led"]
    assert list(house_rules.vague("def f(x):\n    x.found = g(made=x)\n")) == []


def test_public_functions_have_docstrings() -> None:
    missing = []
    for path in MODULES:
        missing += [
            f"{path}:{node.lineno} {node.name}"
            for node in tree((PACKAGE / path).read_text()).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and "overload" not in {ast.unparse(decorator) for decorator in node.decorator_list}
            and not ast.get_docstring(node)
        ]

    assert missing == []


def test_import_of_refemu_brings_neither_numba_nor_scipy() -> None:
    layers = "refemu, refemu.arith, refemu.formats, refemu.units, refemu.models, refemu.golden, refemu.cli"
    code = f"import {layers}; import sys; print(sorted({{'numba', 'scipy', 'hypothesis', 'rich'}} & set(sys.modules)))"

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_units_have_twins_with_the_same_arguments() -> None:
    for name in units.names():
        unit = units.find(name)
        assert unit.name == name and unit.paper.startswith(units.PAPERS[name])
        assert arguments(unit.run) == arguments(unit.run_jit), name


def test_the_table_of_units_names_every_block() -> None:
    """And nothing else: what stands beside blocks lies in folders of its own."""
    blocks = {
        (place.parent.name, place.stem)
        for paper in house_graph.PAPERS
        for place in (PACKAGE / "units" / paper).iterdir()
        if place.name[0] != "_"
    }

    assert {(paper, name) for name, paper in units.PAPERS.items()} == {
        (paper, name) for paper, name in blocks if name not in house_graph.KINDS
    }


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
