"""Stages of CI: what a change starts, the order, the limit, the table."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import stages
from tools.stages import STAGES, Run, Stage

ROOT = Path(__file__).resolve().parents[2]
NIGHTLY = [stage for stage in STAGES if stage.folders]
FOLDERS = sorted({folder for stage in NIGHTLY for folder in stage.folders})
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def names(changed: list[str] | None) -> set[str]:
    return {stage.name for stage in stages.started(STAGES, changed)}


ALWAYS = {stage.name for stage in STAGES if not stage.folders}


@pytest.mark.parametrize("folder", FOLDERS)
def test_change_in_a_folder_starts_its_stages(folder: str) -> None:
    own = {stage.name for stage in NIGHTLY if any(f"{folder}/".startswith(f"{each}/") for each in stage.folders)}

    assert own and names([f"{folder}/planted.py"]) == ALWAYS | own


def test_folder_whose_name_begins_alike_is_another_one() -> None:
    assert names(["examples/rtl-other/planted.py"]) == {stage.name for stage in STAGES}


@pytest.mark.parametrize("path", stages.ALL)
def test_change_of_ci_or_tools_starts_every_stage(path: str) -> None:
    assert names([path]) == {stage.name for stage in STAGES}


def test_unknown_path_and_unknown_history_start_every_stage() -> None:
    assert (
        names(["new/folder.py"]) == names(["docs/port-map.md", "unheard-of"]) == names(None) == {s.name for s in STAGES}
    )


def test_part_of_golden_starts_its_stages() -> None:
    assert {"rtl-bugs", "grades", "slow-golden"} <= names(["refemu/golden/rtl/bench.py"])
    assert "rtl-bugs" not in names(["refemu/golden/compare/rows.py"])


@pytest.mark.parametrize("path", stages.ALWAYS_COVERED)
def test_change_that_no_part_reads_starts_usual_stages(path: str) -> None:
    assert names([path]) == names([]) == ALWAYS
    assert (ROOT / path).exists()


def test_folders_of_parts_exist() -> None:
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
    assert all(set(stage.needs) < {other.name for other in STAGES} for stage in STAGES)


@pytest.mark.skipif(not TRACKED, reason="not a git checkout")
def test_tracked_files_are_known_to_the_mapping() -> None:
    """Else a change of one would start everything each time. Modules that all layers share do."""
    known = (*stages.ALL, *stages.ALWAYS_COVERED, *FOLDERS)
    unknown = [path for path in TRACKED if not stages._below(path, known)]

    assert {str(Path(path).parent) for path in unknown} == {"refemu"}


def test_changes_count_since_day_of_work_or_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    assert stages.changes(None) is None

    def git(*words: str, hour: int = 0) -> None:
        date = f"2026-01-01T{hour:02}:00:00 +0000"
        settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
        environment = {"GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date, "PATH": "/usr/bin:/bin"}
        subprocess.run(["git", *settings, *words], cwd=tmp_path, env=environment, check=True, capture_output=True)

    git("init")
    for hour, name in ((1, "old"), (9, "first"), (11, "second")):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "-m", name, hour=hour)
    assert stages.changes(None) == ["first", "second"] and stages.changes("HEAD~1") == ["second"]
    assert stages.changes("unheard-of") is None


def run(waiting: list[Stage], limit: float = 99.0) -> tuple[Run, list[str], list[int]]:
    """A run of stages that take no time but the word `slow`; beginnings and ends, and how many ran at once."""
    log, at_once, lock = list[str](), list[int](), threading.Lock()

    def execute(stage: Stage) -> int:
        with lock:
            log.append(f"{stage.name} begins")
            at_once.append(sum(1 if "begins" in line else -1 for line in log))
        time.sleep(0.05)
        with lock:
            log.append(f"{stage.name} ends")
        return int("bad" in stage.name)

    result = Run(waiting, limit, execute)
    result.all()
    return result, log, at_once


def test_stages_of_both_cores_run_alone() -> None:
    waiting = [Stage("a", "", 1), Stage("b", "", 3), Stage("both", "", 1, alone=True), Stage("c", "", 2)]
    _, log, at_once = run(waiting)

    assert log[:2] == ["both begins", "both ends"] and max(at_once) == 2
    assert log[2:4] == ["b begins", "c begins"]  # the longest first


def test_stage_waits_for_what_it_needs() -> None:
    _, log, _ = run([Stage("late", "", 9, alone=True, needs=("early", "absent")), Stage("early", "", 1, alone=True)])

    assert log == ["early begins", "early ends", "late begins", "late ends"]


def test_part_beyond_limit_is_named_and_not_begun() -> None:
    result, log, _ = run([Stage("part", "", 900, folders=("docs",)), Stage("usual", "", 900)], limit=10)

    assert log == ["usual begins", "usual ends"]
    assert ("part", 0.0, "left to nightly: it takes 900 s, more than the rest of the limit") in result.rows


def test_failing_stage_is_named_and_hides_none() -> None:
    result, _, _ = run([Stage("bad", "", 1), Stage("good", "", 1)])
    table = stages.table(result.rows, 12.0)

    assert "FAILED (1)" in table and "passed" in table and table.splitlines()[-1].split() == ["all", "12", "s"]


def test_command_lists_stages_and_runs_one(tmp_path: Path) -> None:
    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "tools/stages.py", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert len(call("--list", "--all").stdout.splitlines()) == len(STAGES)
    assert call("--only", "no-such-stage").returncode == 2


def test_output_of_stage_that_fails_is_printed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = (Stage("good", "echo fine", 1), Stage("bad", "echo what is wrong; exit 3", 1, alone=True))
    monkeypatch.setattr(stages, "STAGES", planted)
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *words, sep=" ", **_: printed.append(sep.join(map(str, words))))
        assert stages.main(["--all"]) == 1
    text = "\n".join(printed)

    assert "== bad, the last lines\nwhat is wrong" in text and "bad                 0 s  FAILED (3)" in text
    assert (tmp_path / "good.log").read_text() == "fine\n"
