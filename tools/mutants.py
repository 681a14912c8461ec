"""Mutants of refemu and the tests that kill them: how much of what the sources say would be missed if it were wrong.

    python tools/mutants.py [--area AREA ...] [--count N] [--seed S] [--jobs N] [--limit S] [--json FILE] [--list]
    python tools/mutants.py --named ...

A seeded sample over arith, formats and units, as many of each area, files in turn and kinds of change alike; equal
sources and seeds give equal mutants. --named: those of mutants.toml instead, by hand. A mutant is one changed file in a
copy of the tree. Its tests run there, the first failure kills it: those at the mirrored path of the file or of its
block, its twin's and cases' included, then for units the protocol suite of that unit. First all these tests run once on
the unchanged sources, and must pass (--trust leaves this out).

Kernels stay compiled, each mutant with a cache of its own. Interpreted they would save the compiler's ten seconds, but
exhaustive tests take six times as long, and what only compiled code does would go unseen.
"""

import argparse
import itertools
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from pathlib import Path

from refemu.golden.grade.mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("mutants.toml")
AREAS = ("arith", "formats", "units")
BESIDE = ("twins", "cases", "kernels")
PROTOCOL = ("tests/units/test_*.py", "tests/units/protocol/test_*.py")  #: of every unit, by its name
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "out", "build", "dist", "__pycache__", "*.egg-info", ".*_cache")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
PASSED, NONE_COLLECTED, TIMED_OUT = 0, 5, 124  # exit codes of pytest, but for the last
VERDICTS = {1: "killed", 2: "killed", TIMED_OUT: "timeout"}  #: 2: a module that cannot be imported


@dataclass(frozen=True)
class Mutant:
    """A change of one file. name: of a mutant by hand, else its kind."""

    name: str
    file: str
    line: int
    old: str
    new: str
    source: str  #: the changed file
    tests: tuple[str, ...] = ()  #: test modules beside those at its path; of a mutant by hand

    def __str__(self) -> str:
        old, new = (re.sub(r"\s+", " ", text) for text in (self.old, self.new))
        return f"{self.file}:{self.line} {self.name}: {old} -> {new}"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant. verdict: killed, survived, timeout, or not-run where no test is at its path."""

    mutant: Mutant
    verdict: str
    by: str = ""  #: the test that failed first
    seconds: float = 0.0


def sample(tree: Path, areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants, as many of each area; files in turn, and in a file first a kind of change, then a place."""
    rng = random.Random(seed)
    chosen = []
    for number, area in enumerate(areas):
        share = (count + len(areas) - 1 - number) // len(areas)
        files = sorted((tree / "refemu" / area).rglob("*.py"))
        chosen += list(itertools.islice(_drawn(rng, tree, rng.sample(files, len(files))), share))
    return chosen


def _drawn(rng: random.Random, tree: Path, files: list[Path]) -> Iterator[Mutant]:
    """Mutants of one file after the other, again and again, until none is left."""
    places: dict[Path, list[Mutation]] = {}
    while len(places) < len(files) or any(places.values()):
        for file in files:
            if file not in places:
                places[file] = mutations(file.read_text())
            rest = places[file]
            if rest:
                kind = rng.choice(sorted({each.kind for each in rest}))
                drawn = rng.choice([each for each in rest if each.kind == kind])
                rest.remove(drawn)
                name = file.relative_to(tree).as_posix()
                yield Mutant(kind, name, drawn.line, drawn.old, drawn.new, drawn.apply(file.read_text()))


def named(tree: Path) -> list[Mutant]:
    """The mutants by hand. Exits where one does not say which line of its file it changes."""
    chosen = []
    for entry in tomllib.loads(TABLE.read_text())["mutant"]:
        name, file, old, new = (entry[key] for key in ("name", "file", "old", "new"))
        text = (tree / file).read_text() if (tree / file).is_file() else ""
        if text.count(old) != 1:
            sys.exit(f"mutants: {name}: {file} must hold {old!r} once, got {text.count(old)} times")
        line, tests = text[: text.index(old)].count("\n") + 1, tuple(entry.get("tests", ()))
        chosen.append(Mutant(name, file, line, old, new, text.replace(old, new), tests))
    return chosen


def tests_of(tree: Path, file: str) -> list[str]:
    """The test modules that hold a file of refemu, as paths below the tree."""
    parts = Path(file).with_suffix("").parts[1:]
    blocks = {parts, _readable(parts)}
    if parts[0] == "units":
        blocks.add(_readable(parts)[:3])
    if "kernels" in parts:
        blocks |= {_readable(user) for user in _users(tree, parts)}
    paths = set()
    for *folder, name in blocks:
        above = tree.joinpath("tests", *folder)
        paths |= {above / f"test_{name}.py", *(above / beside / f"test_{name}.py" for beside in BESIDE)}
        paths |= set((above / name).rglob("test_*.py")) if (tree / "refemu").joinpath(*folder, name).is_dir() else set()
    return sorted(path.relative_to(tree).as_posix() for path in paths if path.is_file())


def _readable(parts: Sequence[str]) -> tuple[str, ...]:
    """A module without the folder of what stands beside it."""
    return tuple(part.removesuffix("_jit") for part in parts if part not in BESIDE)


def _users(tree: Path, parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The twins that import a module of kernels."""
    *folder, name = parts
    used = re.compile(rf"refemu\.{re.escape('.'.join(folder))}(\.{name}\b| import [\w\s,()]*\b{name}\b)")
    for path in (tree / "refemu").rglob("twins/*.py"):
        if used.search(path.read_text()):
            yield path.relative_to(tree / "refemu").with_suffix("").parts


def commands(tree: Path, files: Sequence[str]) -> list[list[str]]:
    """What pytest is given for mutants of these files: runs, one after the other."""
    paths = sorted({path for file in files for path in tests_of(tree, file)})
    parts = [_readable(Path(file).with_suffix("").parts[1:]) for file in files]
    units = sorted({part[2] for part in parts if part[0] == "units" and len(part) > 2})
    shared = sorted(path for pattern in PROTOCOL for path in tree.glob(pattern))
    protocol = [[*(path.relative_to(tree).as_posix() for path in shared), "-k", " or ".join(units)]]
    return ([paths] if paths else []) + (protocol if shared and units else [])


def run(tree: Path, words: Sequence[str], cache: Path, limit: float | None) -> tuple[int, str]:
    """Exit code and output of pytest in a tree; TIMED_OUT after `limit` seconds, when all that it started is ended."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words]
    environment = os.environ | {"PYTHONPATH": str(tree), "REFEMU_CACHE": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    with subprocess.Popen(command, cwd=tree, env=environment, text=True, **pipes) as process:
        try:
            output = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return TIMED_OUT, process.communicate()[0]
    return process.returncode, output


def outcome(tree: Path, mutant: Mutant, limit: float) -> Outcome:
    """Run the tests of a mutant in a copy of the tree, which is as before afterwards."""
    runs = [[*mutant.tests]] * bool(mutant.tests) + commands(tree, [mutant.file])
    if not runs:
        return Outcome(mutant, "not-run")
    file, start = tree / mutant.file, time.monotonic()
    before = file.read_bytes()
    try:
        with tempfile.TemporaryDirectory(prefix="refemu-mutant-") as cache:
            _write(file, mutant.source.encode())
            for words in runs:
                code, output = run(tree, words, Path(cache), limit)
                if code not in (PASSED, NONE_COLLECTED):
                    verdict = VERDICTS.get(code) or sys.exit(
                        f"mutants: pytest ended with {code} for {mutant}\n{output}"
                    )
                    by = FAILED.search(output)
                    return Outcome(mutant, verdict, by[1] if by else "", time.monotonic() - start)
    finally:
        _write(file, before)
    return Outcome(mutant, "survived", "", time.monotonic() - start)


def _write(file: Path, text: bytes) -> None:
    """A source without compiled bytes of another one, whose size and second of change may be the same."""
    file.write_bytes(text)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def outcomes(tree: Path, mutants: Sequence[Mutant], jobs: int, limit: float, trust: bool = False) -> Iterator[Outcome]:
    """In the order of the mutants, each job in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="refemu-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Path(shutil.copytree(tree, Path(folder, str(number)), ignore=LEFT_OUT)))
        if not trust:
            require_passing(Path(folder, "0"), mutants)

        def try_out(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return outcome(copy, mutant, limit)
            finally:
                copies.put(copy)

        yield from pool.map(try_out, mutants)


def require_passing(tree: Path, mutants: Sequence[Mutant]) -> None:
    """Exits where a test of these mutants fails without them: it would kill each."""
    with tempfile.TemporaryDirectory(prefix="refemu-mutant-") as cache:
        for words in commands(tree, sorted({mutant.file for mutant in mutants})):
            code, output = run(tree, words, Path(cache), None)
            if code not in (PASSED, NONE_COLLECTED):
                sys.exit(f"mutants: tests fail without any change\n{output[-4000:]}")


def totals(results: Sequence[Outcome]) -> str:
    """Verdicts by area, a line each."""
    counts = Counter((result.mutant.file.split("/")[1], result.verdict) for result in results)
    lines = []
    for area in sorted({area for area, _ in counts}):
        each = {verdict: counts[area, verdict] for verdict in ("killed", "survived", "timeout", "not-run")}
        lines.append(f"{area:8}" + "".join(f"{verdict} {number:<5}" for verdict, number in each.items()))
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run what the command line says. Returns 1 where a mutant survived."""
    options = argparse.ArgumentParser(prog="python tools/mutants.py")
    options.add_argument("--area", nargs="+", default=AREAS, help="folders of refemu to change files of")
    options.add_argument("--count", type=int, default=300, help="mutants in the sample")
    options.add_argument("--seed", type=int, default=0, help="of the sample")
    options.add_argument("--named", action="store_true", help="the mutants of mutants.toml")
    options.add_argument("--tree", type=Path, default=ROOT, help="another checkout to copy")
    options.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    options.add_argument("--limit", type=float, default=600, help="seconds for one run of pytest")
    options.add_argument("--trust", action="store_true", help="do not run the tests on the unchanged sources first")
    options.add_argument("--list", action="store_true", help="only name the mutants")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there, too")
    arguments = options.parse_args(words)
    tree = arguments.tree.resolve()
    mutants = named(tree) if arguments.named else sample(tree, arguments.area, arguments.count, arguments.seed)
    if arguments.list:
        print(*mutants, sep="\n")
        return 0
    results = []
    for result in outcomes(tree, mutants, arguments.jobs, arguments.limit, arguments.trust):
        results.append(result)
        print(f"{result.verdict:8} {result.seconds:5.0f} s  {result.mutant}  {result.by}", flush=True)
    print(totals(results))
    if arguments.json:
        rows = [{**asdict(result), "mutant": {**asdict(result.mutant), "source": ""}} for result in results]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(result.verdict == "survived" for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
