"""tools/mutation.py plants changes in sources, runs the tests that reach them, nearest first, and records who fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools import mutation
from tools.mutation import Mutant, Outcome, Reach

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
CLAMP = "refemu/arith/clamp.py"
TREE = {
    "setup.cfg": "[tool:pytest]\naddopts = --import-mode=importlib\nmarkers =\n    long: seconds\n",
    "refemu/__init__.py": "",
    "refemu/arith/__init__.py": "",
    CLAMP: SOURCE,
    "refemu/arith/double_jit.py": "def double(x):\n    return x + x\n",
    "refemu/arith/double.py": "from refemu.arith.double_jit import double\n\n\ndef run(x):\n    return double(x)\n",
    "tests/arith/test_clamp.py": """
import pytest
from refemu.arith.clamp import clamp

def test_limits():
    assert [clamp(x) for x in (0, 15, 16)] == [0, 15, 15]

@pytest.mark.long
def test_wide():
    assert clamp(99, wide=True) == 31
""",
    "tests/arith/test_double.py": """
from refemu.arith.double import run

def test_double():
    assert run(1) == 2

def test_type():
    assert type(run(1)) is int
""",
}
LIMITS, WIDE = "tests/arith/test_clamp.py::test_limits", "tests/arith/test_clamp.py::test_wide"
DOUBLE, TYPE = "tests/arith/test_double.py::test_double", "tests/arith/test_double.py::test_type"
ENTERED = {LIMITS: [f"{CLAMP}:6"], WIDE: [f"{CLAMP}:6"], DOUBLE: ["refemu/arith/double.py:4"]}
ENTERED |= {TYPE: ["refemu/arith/double.py:4", f"{CLAMP}:99"]}


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reach:
    """A checkout of a few files with a record of what its tests enter. It is too small for plug-ins of pytest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    names = sorted({name for entered in ENTERED.values() for name in entered})
    rows = {test: [names.index(name) for name in entered] for test, entered in ENTERED.items()}
    (tmp_path / "out/reach").mkdir(parents=True)
    (tmp_path / "out/reach/1.json").write_text(json.dumps({"functions": names, "tests": rows}))
    times = {test: {"seconds": 0.1, "marks": ["long"] if test == WIDE else []} for test in ENTERED}
    (tmp_path / "out/times.json").write_text(json.dumps(times))
    return Reach(tmp_path, tmp_path / "out")


def test_equal_seeds_draw_equal_mutants_from_all_areas() -> None:
    first, again, other = (mutation.sample(ROOT, ("arith", "formats", "units"), 16, seed) for seed in (3, 3, 4))
    areas = [mutant.file.split("/")[1] for mutant in first]

    assert first == again != other and len({mutant.file for mutant in first}) == 16
    assert [areas.count(area) for area in ("arith", "formats", "units")] == [6, 5, 5]


def test_sample_has_no_mutant_twice(reach: Reach) -> None:
    mutants = mutation.sample(reach.tree, ("arith",), 300, 0)
    changed = {(mutant.file, mutant.source(reach.tree)) for mutant in mutants}

    assert len(mutants) == len(changed) == 25


def test_exchanged_arguments_are_a_kind_of_mutant() -> None:
    kinds = {site.new for site in mutation.all_mutations("f(a, b, c, d=1)\ng(a, 1)\n") if site.kind == "arguments"}

    assert kinds == {"f(b, a, c, d=1)"}


def test_tests_that_enter_the_function_run_nearest_first(reach: Reach) -> None:
    assert reach.tests(Mutant(CLAMP, 12, "extreme", "min", "max")) == [LIMITS, WIDE]
    assert list(mutation.groups(reach, [LIMITS, WIDE], 60)) == [[LIMITS], [WIDE]]
    assert list(mutation.groups(reach, [LIMITS, DOUBLE], 0.15)) == [[LIMITS]]


def test_compiled_code_is_reached_through_its_users(reach: Reach) -> None:
    assert reach.tests(Mutant("refemu/arith/double_jit.py", 2, "operator", "x + x", "x - x")) == [DOUBLE, TYPE]


@pytest.mark.long
def test_mutant_is_killed_fast_or_slowly_or_survives(reach: Reach) -> None:
    mutants = [
        Mutant(CLAMP, 12, "extreme", "min(", "max("),
        Mutant(CLAMP, 8, "constant", "31", "32"),
        Mutant(CLAMP, 9, "comparison", "x < 0", "x < -1"),
        Mutant(CLAMP, 6, "by hand", "def clamp", "def"),
        Mutant("refemu/arith/double_jit.py", 2, "operator", "x + x", "x - x"),
    ]
    results = list(mutation.outcomes(reach, mutants, 1, 60))

    assert [(result.verdict, result.by, result.mark) for result in results] == [
        ("killed", LIMITS, ""),
        ("killed", WIDE, "long"),
        ("survived", "", ""),
        ("killed", "tests/arith/test_clamp.py", ""),
        ("killed", DOUBLE, ""),
    ]
    assert mutation.totals(results).splitlines()[-1].split() == ["all", "3", "1", "0", "1", "0", "0"]
    assert (reach.tree / CLAMP).read_text() == SOURCE


@pytest.mark.long
def test_mutant_that_never_ends_is_stopped(reach: Reach) -> None:
    endless = Mutant(CLAMP, 11, "by hand", "    log[x]", "    while True:\n        pass\n    log[x]")
    copy = {"tree": reach.tree, "mutant": endless, "reach": reach, "limit": 60.0}
    with pytest.MonkeyPatch.context() as patch:
        run: Any = mutation.run
        patch.setattr(mutation, "run", lambda tree, tests, limit: run(tree, tests, 3))
        result = mutation.outcome(**copy)

    assert (result.verdict, result.by) == ("killed", "timeout")


@pytest.mark.long
def test_record_comes_back_and_its_killer_runs_first(reach: Reach, tmp_path: Path) -> None:
    """Also where nothing says any more which test enters what, and where the killer is gone."""
    mutants = [Mutant(CLAMP, 12, "extreme", "min(", "max("), Mutant(CLAMP, 8, "constant", "31", "32")]
    record = tmp_path / "record.json"
    mutation.write(record, list(mutation.outcomes(reach, mutants, 1, 60)))
    before = mutation.read(record)
    assert [result.by for result in before] == [LIMITS, WIDE] and [result.mutant for result in before] == mutants

    for file in (tmp_path / "out").rglob("*.json"):
        file.unlink()
    (reach.tree / "tests/arith/test_clamp.py").write_text(TREE["tests/arith/test_clamp.py"].replace("_wide", "_w"))
    words = ["--again", str(record), "--tree", str(reach.tree), "--reach", str(tmp_path / "out")]
    assert mutation.main([*words, "--record", str(tmp_path / "after.json")]) == 1
    after = mutation.read(tmp_path / "after.json")
    assert [result.verdict for result in after] == ["killed", "survived"]
    lines = mutation.compare(before, after).splitlines()
    assert lines[-1] == f"long -> survived  {mutants[1]}  {WIDE} -> "


def test_place_that_is_gone_is_counted_as_such(reach: Reach) -> None:
    mutants = [Mutant(CLAMP, 12, "extreme", "gone", "max"), Mutant("refemu/arith/gone.py", 1, "extreme", "a", "b")]

    assert [result.verdict for result in mutation.outcomes(reach, mutants, 1, 60)] == ["gone", "gone"]


def test_mutants_by_hand_name_one_place_each(tmp_path: Path) -> None:
    mutants = mutation.named(ROOT)

    assert len(mutants) == len({mutant.kind for mutant in mutants}) >= 20
    assert all((ROOT / mutant.file).read_text() != mutant.source(ROOT) for mutant in mutants)
    with pytest.raises(SystemExit, match=r"the least lossy layers get 8 bits: .* must contain .* once, got 0 times"):
        mutation.named(tmp_path)


def test_outcomes_are_counted_by_the_tests_that_kill() -> None:
    mutant = Mutant(CLAMP, 1, "constant", "1", "2")
    results = [Outcome(mutant, "killed", LIMITS), Outcome(mutant, "killed", WIDE, "long"), Outcome(mutant, "unreached")]

    assert mutation.totals(results).splitlines()[1].split() == ["arith", "1", "1", "0", "0", "1", "0"]
