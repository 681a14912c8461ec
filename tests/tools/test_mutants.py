"""tools/mutants.py changes sources where a mistake could stand, runs the tests at their paths, and counts survivors."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
TREE = {
    "setup.cfg": "[tool:pytest]\naddopts = --import-mode=importlib\n",
    "refemu/__init__.py": "",
    "refemu/arith/__init__.py": "",
    "refemu/arith/clamp.py": SOURCE,
    "refemu/arith/untested.py": "ZERO = 0\n",
    "refemu/units/kllm/adder.py": "def run(a, b):\n    return a + b\n",
    "refemu/units/kllm/twins/adder.py": "def run(a, b):\n    return a + b\n",
    "refemu/units/kllm/kernels/sums.py": "def add(a, b):\n    return a + b\n",
    "refemu/units/kllm/twins/sub.py": "from refemu.units.kllm.kernels import sums\n",
    "refemu/units/kllm/tree/unit.py": "LEVELS = 3\n",
    "tests/arith/test_clamp.py": """
from refemu.arith.clamp import clamp

def test_limits():
    assert [clamp(x) for x in (0, 15, 16)] == [0, 15, 15]
""",
    "tests/units/kllm/test_adder.py": "def test_nothing():\n    pass\n",
    "tests/units/kllm/twins/test_adder.py": "",
    "tests/units/kllm/test_sub.py": "",
    "tests/units/kllm/test_tree.py": "",
    "tests/units/kllm/tree/test_levels.py": "",
    "tests/units/protocol/test_twins.py": """
import pytest
from refemu.units.kllm import adder
from refemu.units.kllm.twins import adder as adder_jit

@pytest.mark.parametrize("unit", ["adder", "other"])
def test_twin_equals_unit(unit):
    assert unit == "adder" and adder.run(1, 2) == adder_jit.run(1, 2)
""",
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`tool(name)` is the module tools/<name>.py. The tree of these tests is too small for plugins of pytest."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return importlib.import_module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of a few files."""
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_equal_seeds_draw_equal_mutants_as_many_of_each_area(tool: Any) -> None:
    sample = tool("mutants").sample
    first, again, other = (sample(ROOT, ("arith", "formats", "units"), 16, seed) for seed in (3, 3, 4))
    areas = [mutant.file.split("/")[1] for mutant in first]

    assert first == again != other
    assert [areas.count(area) for area in ("arith", "formats", "units")] == [6, 5, 5]
    assert len({mutant.file for mutant in first}) == 16


def test_a_sample_holds_no_mutant_twice(tool: Any, tree: Path) -> None:
    mutants = tool("mutants").sample(tree, ("arith",), 300, 0)

    assert len(mutants) == len({(mutant.file, mutant.source) for mutant in mutants}) == 23


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("refemu/arith/clamp.py", ["tests/arith/test_clamp.py"]),
        ("refemu/arith/clamp_jit.py", ["tests/arith/test_clamp.py"]),
        ("refemu/arith/untested.py", []),
        ("refemu/units/kllm/adder.py", ["tests/units/kllm/test_adder.py", "tests/units/kllm/twins/test_adder.py"]),
        (
            "refemu/units/kllm/twins/adder.py",
            ["tests/units/kllm/test_adder.py", "tests/units/kllm/twins/test_adder.py"],
        ),
        ("refemu/units/kllm/kernels/sums.py", ["tests/units/kllm/test_sub.py"]),
        ("refemu/units/kllm/tree/unit.py", ["tests/units/kllm/test_tree.py", "tests/units/kllm/tree/test_levels.py"]),
    ],
)
def test_a_file_has_the_tests_at_its_path_and_at_that_of_its_block(
    tool: Any, tree: Path, file: str, tests: list[str]
) -> None:
    assert tool("mutants").tests_of(tree, file) == tests


def mutant(tool: Any, tree: Path, file: str, old: str, new: str) -> Any:
    text = (tree / file).read_text()
    assert old in text
    return tool("mutants").Mutant("by hand", file, 1, old, new, text.replace(old, new))


def test_a_mutant_is_killed_or_survives(tool: Any, tree: Path) -> None:
    """By its own tests or by the protocol suite, the cases of its unit alone; the tree is as before."""
    mutants = [
        mutant(tool, tree, "refemu/arith/clamp.py", "min(", "max("),
        mutant(tool, tree, "refemu/arith/clamp.py", "x < 0", "x < -1"),
        mutant(tool, tree, "refemu/arith/clamp.py", "def clamp", "def"),
        mutant(tool, tree, "refemu/units/kllm/twins/adder.py", "a + b", "a - b"),
        mutant(tool, tree, "refemu/arith/untested.py", "0", "1"),
    ]
    results = list(tool("mutants").outcomes(tree, mutants, 1, 60))

    assert [(result.verdict, result.by) for result in results] == [
        ("killed", "tests/arith/test_clamp.py::test_limits"),
        ("survived", ""),
        ("killed", "tests/arith/test_clamp.py"),
        ("killed", "tests/units/protocol/test_twins.py::test_twin_equals_unit[adder]"),
        ("not-run", ""),
    ]
    assert tool("mutants").totals(results).splitlines() == [
        "arith   killed 2    survived 1    timeout 0    not-run 1    ",
        "units   killed 1    survived 0    timeout 0    not-run 0    ",
    ]
    assert (tree / "refemu/arith/clamp.py").read_text() == SOURCE


def test_a_mutant_that_never_ends_is_stopped(tool: Any, tree: Path) -> None:
    endless = mutant(tool, tree, "refemu/arith/clamp.py", "    log[x]", "    while True:\n        pass\n    log[x]")

    assert [result.verdict for result in tool("mutants").outcomes(tree, [endless], 1, 3)] == ["timeout"]


def test_tests_that_fail_anyway_kill_nothing(tool: Any, tree: Path) -> None:
    (tree / "tests/arith/test_clamp.py").write_text("def test_broken():\n    assert False\n")
    changed = mutant(tool, tree, "refemu/arith/clamp.py", "min(", "max(")
    with pytest.raises(SystemExit, match="mutants: tests fail without any change"):
        list(tool("mutants").outcomes(tree, [changed], 1, 60))


def test_mutants_by_hand_say_which_line_they_change(tool: Any, tree: Path) -> None:
    mutants = tool("mutants").named(ROOT)

    assert len(mutants) == len({mutant.name for mutant in mutants}) >= 20
    assert all((ROOT / mutant.file).read_text() != mutant.source for mutant in mutants)
    assert all(tool("mutants").tests_of(ROOT, mutant.file) for mutant in mutants)
    with pytest.raises(
        SystemExit, match=r"the least lossy layers get 8 bits: .*layers.py must hold .* once, got 0 times"
    ):
        tool("mutants").named(tree)


def test_the_command_prints_a_table_and_json(tree: Path) -> None:
    words = ["--tree", tree, "--area", "arith", "--count", "3", "--seed", "1", "--json", tree / "outcomes.json"]
    command = [sys.executable, str(ROOT / "tools" / "mutants.py"), *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    rows = json.loads((tree / "outcomes.json").read_text())

    assert len(done.stdout.splitlines()) == 4 and len(rows) == 3, done.stdout + done.stderr
    assert done.returncode == any(row["verdict"] == "survived" for row in rows)
    assert {row["mutant"]["file"] for row in rows} == {"refemu/arith/clamp.py", "refemu/arith/untested.py"}
