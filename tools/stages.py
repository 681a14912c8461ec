"""Stages of CI: their list, which ones a change starts, and their order; standard library only.

    python3 tools/stages.py [--minutes M] [--since REV | --all] [--only NAME ...] [--list]

Stages without folders always run. Others are parts of `make nightly`: they run after a change in one of their folders,
of a path that no stage names, or of ALL. Changes count since REV, by default since the newest commit that is at least
HOURS older than HEAD. `make nightly` runs everything, for up to ten hours.

Stages that use both cores run alone, others two at a time, longest first. A nightly part that would exceed the limit is
not started, and the table says so. Ends with a table of stages, seconds and results; exit code 1 if one failed.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "out" / "ci"
HOURS = 6  #: longer than the work on one submission, shorter than the time between two days' work
LINES = 60  #: lines of a failed stage's log that are repeated at the end

#: paths whose change starts every stage
ALL = (".ci", "tools", "Makefile", "setup.cfg", "pyproject.toml", "tests/conftest.py")
#: paths that no nightly part reads: the stages that always run cover them
ALWAYS_COVERED = (
    *("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE", "MANIFEST.in"),
    *(
        "benchmarks",
        "refemu/cli",
        "refemu/draw",
        "refemu/harness",
        "refemu/prove",
        "refemu/testing",
        ".gitignore",
        ".git-blame-ignore-revs",
    ),
    *(f"examples/{name}" for name in ("kernels", "notebooks", "tutorials", "refemu-mx")),
)
#: paths that decide bits
BITS = ("refemu/arith", "refemu/formats", "refemu/units")
PARTS = ("tests", "refemu/models", "refemu/studies", "refemu/golden", *BITS)


@dataclass(frozen=True)
class Stage:
    """A command of make. seconds: duration, for the order and the limit; alone: it uses both cores."""

    name: str
    command: str
    seconds: int
    alone: bool = False
    folders: tuple[str, ...] = ()  #: folders of a nightly part
    needs: tuple[str, ...] = ()  #: stages that must end first


def _mirrored(name: str) -> tuple[str, str]:
    return f"refemu/{name}", f"tests/{name}"


ENVIRONMENT = ("programs",)
NEWEST = "LATEST=1 VENV=out/latest/venv OUT=out/latest"  #: where the newest packages are tried
STAGES = (
    Stage("test", "bash .ci/bare test", 320, alone=True),
    Stage("programs", "make programs", 90, alone=True, needs=("test",)),
    Stage("golden", "bash .ci/bare golden", 260, needs=("test",)),
    Stage("test-skipped", "make test-skipped", 60, alone=True, needs=ENVIRONMENT),
    Stage("test-long", "make test-long", 720, alone=True, needs=ENVIRONMENT),
    Stage("rtl", "make rtl RTL='--bugs 1'", 400, needs=ENVIRONMENT),
    Stage("formal", "make formal", 240, needs=ENVIRONMENT),
    Stage("conformance", "make conformance", 240, needs=ENVIRONMENT),
    Stage("plugins", "make plugins", 240, needs=ENVIRONMENT),
    Stage("docs", "make docs", 180, needs=ENVIRONMENT),
    Stage("arm64", "make arm64", 170, needs=ENVIRONMENT),
    Stage("pythons", "make test-pythons PYTHONS=--digests", 110, needs=ENVIRONMENT),
    Stage("lint", "make lint", 75, needs=ENVIRONMENT),
    Stage("fuzz", "make fuzz", 260, alone=True, needs=ENVIRONMENT),
    Stage("latest", f"make test-some {NEWEST} PYTEST='tests/arith tests/formats'", 120, needs=ENVIRONMENT),
    Stage("committed", "make test-committed", 150, True, (*BITS, "refemu/golden", "vectors"), ENVIRONMENT),
    Stage("grades", "make grades GRADES=--check", 3600, folders=(*BITS, "refemu/golden", "vectors"), needs=ENVIRONMENT),
    Stage("release", "make release", 240, folders=("vectors",), needs=ENVIRONMENT),
    Stage("latest-all", f"make test {NEWEST}", 480, True, ("tests/tools",), ("latest",)),
    Stage("fuzz-hour", "make fuzz FUZZ=3600 GUIDED='--lines --seed 0'", 3900, True, ("tests/fuzz",), ("fuzz",)),
    Stage("rtl-bugs", "make rtl", 900, folders=("examples/rtl", "refemu/golden/rtl", *BITS), needs=("rtl",)),
    Stage("pythons-tests", "make test-pythons", 600, folders=("refemu/arith", "refemu/formats"), needs=("pythons",)),
    Stage("arm64-tests", "make arm64 ARM64=--tests", 1200, folders=("refemu/arith",), needs=("arm64",)),
    *(
        Stage(f"slow-{name}", f"make test-slow PYTEST=tests/{name}", seconds, True, _mirrored(name), ("test-long",))
        for name, seconds in (
            ("arith", 1200),
            ("formats", 1200),
            ("units", 3600),
            ("models", 2400),
            ("studies", 300),
            ("golden", 1800),
        )
    ),
    Stage("mutation", "make mutation MUTATION=--changed", 1800, True, PARTS, ("test-long",)),
)


def started(stages: Sequence[Stage], changed: Sequence[str] | None) -> list[Stage]:
    """Stages that a change of these paths starts; None: all."""
    nightly = [folder for stage in stages for folder in stage.folders]
    if changed is None or any(_below(path, ALL) or not _below(path, (*ALWAYS_COVERED, *nightly)) for path in changed):
        return list(stages)
    return [stage for stage in stages if not stage.folders or any(_below(path, stage.folders) for path in changed)]


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def changes(since: str | None) -> list[str] | None:
    """Paths that differ from `since`, or from the newest commit HOURS before HEAD; None if git fails."""
    if since is None:
        head = _git("log", "-1", "--format=%ct")
        since = head and _git("rev-list", "-1", f"--before={int(head) - 3600 * HOURS}", "HEAD")
    listed = _git("diff", "--name-only", "--no-renames", since, "HEAD") if since else None
    return None if listed is None else listed.splitlines()


def _git(*words: str) -> str | None:
    ran = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else None


class Run:
    """Runs stages, at most two at a time, and records their results."""

    def __init__(self, stages: Sequence[Stage], limit: float, execute: Callable[[Stage], int]) -> None:
        self.waiting = sorted(stages, key=lambda stage: (bool(stage.folders), not stage.alone, -stage.seconds))
        self.names = {stage.name for stage in stages}
        self.limit, self.execute = limit, execute
        self.start = time.monotonic()
        self.running: list[Stage] = []
        self.rows: list[tuple[str, float, str]] = []  #: stage, seconds, result
        self.changed = threading.Condition()

    def all(self) -> None:
        """Run everything. Returns when the last stage has ended."""
        with self.changed:
            while self.waiting or self.running:
                stage = self.next()
                if stage is None:
                    self.changed.wait()
                elif stage.folders and time.monotonic() - self.start + stage.seconds > self.limit:
                    self.waiting.remove(stage)
                    self.rows.append(
                        (
                            stage.name,
                            0.0,
                            f"left to nightly: it takes {stage.seconds} s, more than the rest of the limit",
                        )
                    )
                else:
                    self.waiting.remove(stage)
                    self.running.append(stage)
                    threading.Thread(target=self.one, args=(stage,)).start()

    def next(self) -> Stage | None:
        """The first stage that can start now."""
        if any(stage.alone for stage in self.running) or len(self.running) > 1:
            return None
        ended = {name for name, _, _ in self.rows}
        for stage in self.waiting:
            if set(stage.needs) & self.names <= ended:
                return None if stage.alone and self.running else stage
        return None

    def one(self, stage: Stage) -> None:
        """Run a stage in a separate thread."""
        start = time.monotonic()
        code = self.execute(stage)
        seconds = time.monotonic() - start
        result = "passed" if code == 0 else f"FAILED ({code})"
        print(f"{stage.name}: {result}, {seconds:.0f} s", flush=True)
        with self.changed:
            self.running.remove(stage)
            self.rows.append((stage.name, seconds, result))
            self.changed.notify_all()


def execute(stage: Stage) -> int:
    """Exit code of a stage, which writes to a log and, if it runs alone, to the terminal too."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{stage.name}.log").open("w") as log:
        command = ["bash", "-c", stage.command]
        pipes = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        if not stage.alone:
            return subprocess.run(command, cwd=ROOT, stdout=log, check=False, **pipes).returncode
        print(f"== {stage.name}: {stage.command}", flush=True)
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace", **pipes
        ) as process:
            for line in process.stdout or ():
                log.write(line)
                log.flush()
                print(line, end="", flush=True)
        return process.returncode


def table(rows: Sequence[tuple[str, float, str]], total: float) -> str:
    """A line per stage."""
    lines = [f"{name:14} {seconds:6.0f} s  {result}" for name, seconds, result in rows]
    return "\n".join([*lines, f"{'all':14} {total:6.0f} s"])


def main(words: Sequence[str]) -> int:
    """Run the stages. Returns 1 if one failed."""
    options = argparse.ArgumentParser(prog="python3 tools/stages.py")
    options.add_argument("--minutes", type=float, default=45, help="a nightly part that would end later is not started")
    options.add_argument("--since", metavar="REV", help="changes since then decide which parts run")
    options.add_argument("--all", action="store_true", help="every part")
    options.add_argument("--only", nargs="+", metavar="NAME", help="only these stages")
    options.add_argument("--list", action="store_true", help="only print the stages that would run")
    arguments = options.parse_args(words)
    stages = started(STAGES, None if arguments.all else changes(arguments.since))
    if arguments.only:
        unknown = sorted(set(arguments.only) - {stage.name for stage in STAGES})
        if unknown:
            options.error(f"--only: unknown stage {', '.join(unknown)}; --list --all prints them all")
        stages = [stage for stage in STAGES if stage.name in arguments.only]
    if arguments.list:
        print(*(f"{stage.name:14} {stage.command}" for stage in stages), sep="\n")
        return 0
    run = Run(stages, 60 * arguments.minutes, execute)
    run.all()
    failed = [name for name, _, result in run.rows if result.startswith("FAILED")]
    for name in sorted({stage.name for stage in stages if not stage.alone} - set(failed)):
        _print_log(name, 5)
    for name in failed:
        _print_log(name, LINES)
    print(table(run.rows, time.monotonic() - run.start), flush=True)
    return int(bool(failed))


def _print_log(name: str, lines: int) -> None:
    log = LOGS / f"{name}.log"
    if log.exists():
        print(f"== {name}, the last lines", *log.read_text(errors="replace").splitlines()[-lines:], sep="\n")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(sys.argv[1:]))
