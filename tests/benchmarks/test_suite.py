"""The suite covers every goal, finds rows by id, and starts light."""

import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import commands, suite
from benchmarks.__main__ import main
from benchmarks.goals import GOALS
from benchmarks.pairs import Broken, guarded
from refemu.arith.checks import Refused
from tests.benchmarks.factory import row


def test_every_goal_has_a_row():
    assert set(GOALS) - {*suite.names(), *suite.names(True)} == set()


def test_every_performance_row_has_goal_in_list():
    named = {name for name in suite.names() if name.startswith(("PERF-", "BUDGET-")) and name[:6] != "PERF-M"}

    assert named <= set(GOALS)


def test_every_module_of_rows_is_in_the_suite():
    folder = inspect.getfile(suite).removesuffix("suite.py") + "rows"
    code = f"import pathlib; print(*[p.stem for p in pathlib.Path({folder!r}).glob('*.py') if 'ROWS' in p.read_text()])"
    found = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())

    assert found == {module.__name__.split(".")[-1] for module in suite.MODULES + suite.THREADED}


def test_functions_are_found_by_each_of_their_ids():
    for id in ("PERF-1", "PERF-2", "PERF-4"):
        assert [entry.ids for entry in suite.select([id])] == [("PERF-1", "PERF-2", "PERF-4")]
    assert suite.select(["THREADS-MATMUL"]) == [] != suite.select(["THREADS-MATMUL"], several=True)
    assert suite.select([]) == suite.table()


def test_unknown_id_error_names_the_nearest():
    with pytest.raises(Refused, match=r"unknown row 'PERF-111'; did you mean 'PERF-11'"):
        suite.select(["PERF-111"])


@pytest.mark.parametrize("words", [["--threads", "0"], ["--threads", "some"]])
def test_invalid_number_of_threads_is_rejected(words):
    with pytest.raises(SystemExit, match="a number from 1 on or `all`"):
        main(words)


def test_one_cpu_has_no_rows_of_several_threads(monkeypatch):
    monkeypatch.setattr(suite, "CPUS", 1)

    assert [row.reason for row in suite._elsewhere(["THREADS-MATMUL"], "")] == ["there is one CPU"]


def test_ids_of_rows_match_their_function(monkeypatch):
    """Of the two rows that cost least."""
    monkeypatch.setattr("benchmarks.pairs.first_calls_only", True)
    for id in ("PERF-28", "PERF-31"):
        (entry,) = suite.select([id])
        assert {row.id for row in entry.rows()} <= set(entry.ids)


def test_unwritable_file_is_rejected_before_measuring(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite, "measured", lambda *arguments, **options: pytest.fail("measured"))
    (tmp_path / "file").write_text("")

    assert main(["PERF-28", "--history", str(tmp_path / "file" / "history.jsonl")]) == 2
    assert "cannot be written" in capsys.readouterr().err


ENTRY = suite.Entry(("PERF-28",), suite.MODULES[0], list)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (lambda: os._exit(3), "the process ended without an answer"),
        (lambda: commands.inside("import refemu.gone"), "ModuleNotFoundError: No module named 'refemu.gone'"),
    ],
)
def test_failing_row_is_an_error_and_others_run(rows, error, tmp_path, monkeypatch, capsys):
    entries = [replace(ENTRY, ids=("BROKEN",), rows=rows), replace(ENTRY, rows=lambda: [row()])]
    monkeypatch.setattr(suite, "table", lambda several=False: [] if several else entries)

    assert main(["--cache", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("BROKEN           ERROR ") and error in lines[1]
    assert lines[2].startswith("PERF-1 ")


def test_unit_that_breaks_leaves_others_of_its_function(capsys):
    rows = [made for each in (1, 0) for made in guarded("A", f"case {each}", lambda each=each: [row(ratio=1 / each)])]

    assert [type(made).__name__ for made in rows] == ["Row", "Broken"]
    assert rows[1] == Broken("A", "case 0", "ZeroDivisionError: division by zero")
    assert "Traceback" in capsys.readouterr().err


def test_rows_of_several_threads_return_their_errors(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "CPUS", 2)
    rows = [row(), Broken("A", "", "it raised")]

    def run(words, **_):
        Path(words[words.index("--pickle") + 1]).write_bytes(pickle.dumps(rows))

    monkeypatch.setattr(subprocess, "run", run)

    assert suite._elsewhere(["A"], "") == rows


def test_dying_process_of_several_threads_is_an_error(monkeypatch):
    monkeypatch.setattr(suite, "CPUS", 2)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=-9))

    assert suite._elsewhere(["A", "B"], "") == [Broken("A B", "", "the process of several threads ended with code -9")]


def test_a_smallest_run_is_not_written(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--smallest", "--history", str(tmp_path / "h")])

    assert "its times mean nothing" in capsys.readouterr().err


def test_run_prints_table_and_appends_to_history(tmp_path, capsys):
    """One row from end to end, by one process."""
    arguments = SimpleNamespace(
        ids=["PERF-28"],
        threads=1,
        list=False,
        cold=False,
        cache=str(tmp_path),
        markdown=None,
        json=None,
        pickle=None,
        history=str(tmp_path / "h" / "history.jsonl"),
    )

    assert suite.main(arguments) == 0
    assert "rotary tables" in capsys.readouterr().out
    assert len((tmp_path / "h" / "history.jsonl").read_text().splitlines()) == 1


LIGHT = "import sys; {}; print(sorted({{'numba', 'scipy', 'hypothesis', 'torch'}} & set(sys.modules)))"


@pytest.mark.parametrize(
    "code",
    [
        "import refemu",
        "import refemu.formats, refemu.units, refemu.models, refemu.golden",
        "from refemu.cli import main; main(['--help'])",
        "from refemu.cli import main; main(['show', 'INT4'])",
        "from refemu.cli import main; main(['list'])",
        "import refemu.testing; refemu.testing.register()",
        "import benchmarks.__main__, benchmarks.history",
    ],
)
def test_what_must_start_fast_imports_nothing_heavy(code):
    done = subprocess.run([sys.executable, "-c", LIGHT.format(code)], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
