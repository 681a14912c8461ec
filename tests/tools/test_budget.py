"""tools/budget.py measures tests, fails those over their budget in CI, ends those that hang, and lists the skipped."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import budget

ROOT = Path(__file__).resolve().parents[2]
PLANTED = """
import os, time
import numba, pytest

def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass

def test_quick(): pass

def test_over_budget(): burn(0.5)

@pytest.mark.long
def test_over_budget_but_marked(): burn(0.5)

def test_child_over_budget():
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"])

@pytest.mark.parametrize("i", range(3))
def test_skipped(i): pytest.skip(f"no   simulator")
"""
HANGS = """
import os, time, numba

@numba.njit(nogil=True)
def forever(x):
    while x > 0:
        x = x | 1
    return x

def test_before(): pass
def test_waits(): time.sleep(60)
def test_between(): pass
def test_spins_in_compiled_code(): forever(1)
def test_dies(): os._exit(3)
def test_after(): pass
"""
CONFTEST = """
from tools import budget
budget.BUDGET, budget.TOLERANCE = 0.2, 1.0
from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure
"""


def run(folder: Path, text: str, *words: str, ci: str = "true") -> str:
    """What pytest prints for a module of tests."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "setup.cfg").write_text("[tool:pytest]\nmarkers =\n    long: seconds\n    slow: minutes\n")
    (folder / "test_planted.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": ci, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_unmarked_test_over_budget_fails_in_ci(tmp_path: Path) -> None:
    printed = run(tmp_path, PLANTED, "--times", "times.json")
    times = json.loads((tmp_path / "times.json").read_text())
    by_name = {name.split("::")[1]: test for name, test in times.items()}

    failed = set(re.findall(r"^ERROR test_planted.py::(\w+)", printed, re.MULTILINE))
    assert failed == {"test_over_budget", "test_child_over_budget"}
    assert "s of processor time, the budget is 0 s; make it faster or mark it `long`" in printed
    assert by_name["test_over_budget_but_marked"]["marks"] == ["long"]
    assert by_name["test_child_over_budget"]["seconds"] > 0.4 > by_name["test_quick"]["seconds"]
    assert {test["reason"] for test in times.values() if test["result"] == "skipped"} == {"no simulator"}
    assert re.search(r"=+ skipped =+\n     3  no simulator\n=+ largest of 7 tests", printed)
    assert "ERROR" not in run(tmp_path, PLANTED, ci="")


@pytest.mark.long
def test_skipped_tests_run_alone_the_next_time(tmp_path: Path) -> None:
    run(tmp_path, PLANTED, "--times", "times.json")
    printed = run(tmp_path, PLANTED.replace("pytest.skip", "str"), "--rerun-skipped", "times.json")

    assert "3 passed, 4 deselected" in printed


@pytest.mark.long
def test_hang_and_dead_worker_are_both_named(tmp_path: Path) -> None:
    """Also a hang in compiled code, which no signal interrupts. With --dist loadfile, a dead worker hides the rest."""
    printed = run(tmp_path, HANGS, "-n", "1", "--dist", "worksteal", "--max-worker-restart", "4", "--timeout", "3")

    assert re.search(r"FAILED test_planted.py::test_waits .*Timeout \(>3.0s\)", printed)
    crashed = set(re.findall(r"crashed while running 'test_planted.py::(\w+)'", printed))
    assert crashed == {"test_spins_in_compiled_code", "test_dies"}
    assert "3 failed, 3 passed" in printed


def test_reason_is_one_line() -> None:
    report = pytest.TestReport("a", ("a", 1, "a"), {}, "skipped", ("a.py", 3, "Skipped: no\n  browser"), "setup")

    assert budget.reason(report) == "no browser"


def test_list_of_marks_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions most of whose tests take long, single parameters with any characters, and other files."""
    seconds = {"test_a.py::test_one[x]": 0.2, "test_a.py::test_one[ :: - y[1]]": 0.3, "test_a.py::test_quick": 0.0}
    seconds |= {f"test_a.py::Test::test_some[{number}]": 9.0 * (number < 2) for number in range(9)}
    seconds |= {"test_a.py::test_two[a]": 0.2, "test_b.py::test_one": 0.2}
    seconds |= {f"test_b.py::test_many[{name}]": 0.2 * (name in "a[") for name in "a[bcdefg"}
    (tmp_path / "times.json").write_text(json.dumps({name: {"seconds": each} for name, each in seconds.items()}))
    monkeypatch.setattr(budget, "LIST", tmp_path / "marks.txt")
    budget.main([str(tmp_path / "times.json")])
    text = budget.LIST.read_text()

    assert budget.read(text) == {
        "test_a.py::Test::test_some[0]": "slow",
        "test_a.py::Test::test_some[1]": "slow",
        "test_a.py::test_one": "long",
        "test_a.py::test_two[a]": "long",
        "test_b.py::test_many[[]": "long",
        "test_b.py::test_many[a]": "long",
        "test_b.py::test_one": "long",
    }
    assert budget.written(budget.read(text)) == text
    assert "slow  test_a.py\n  Test::test_some[\n    0]\n    1]\nlong  test_b.py\n" in text
