"""Mutants of refemu and the tests that kill them: which errors in the sources the tests detect.

    make mutation-reach              # once: functions that each test enters, and its seconds, in out/mutation
    python -m tools.mutation [--count N] [--seed S] [--area AREA ...] [--named] [--jobs N] [--record FILE] [--list]
    python -m tools.mutation --again RECORD ...      # the mutants of a record; the test that killed one runs first
    python -m tools.mutation --compare RECORD RECORD

A random sample over AREAS: equally many from each, files in turn, kinds of change in turn. --named: the hand-written
mutants of mutation.toml. A mutant is one changed file in a copy of the tree. Tests that enter the changed function run
there, nearest first, those of `make test` before those of `make test-long`; the first failure kills it. --seconds
limits each of the two groups by the tests' recorded processor time.
"""

import argparse
import ast
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
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from refemu.golden.grade.mutations import KINDS, Change, Mutation, mutations
from tools import stages

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("mutation.toml")
REACH = ROOT / "out" / "mutation"
AREAS = ("arith", "formats", "units", "models", "studies", "golden")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "out", "build", "dist", "__pycache__", "*.egg-info", ".*_cache")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?: [^-]\S*)*)", re.MULTILINE)
PASSED, NONE_COLLECTED, TIMED_OUT = 0, 5, 124  # exit codes of pytest, except the last
_kinds = threading.Lock()  # guards `KINDS`
NEAREST = 3.0  #: seconds of tests that run before the rest: they kill most mutants


def _swapped(node: ast.AST) -> Change:
    """Two arguments of a call exchanged, if both are names."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and all(isinstance(arg, ast.Name) for arg in node.args[:2]):
        first, second, *rest = node.args
        yield node, ast.unparse(ast.Call(node.func, [second, first, *rest], node.keywords))


class Gone(Exception):
    """A mutant whose place in the sources no longer exists: they are newer than the record."""


@dataclass(frozen=True)
class Mutant:
    """A change of one file. kind: for a hand-written mutant, its name; place: which of equal changes of this line."""

    file: str
    line: int
    kind: str
    old: str
    new: str
    place: int = 0
    tests: tuple[str, ...] = ()  #: for a hand-written mutant: run before those that reach it

    def __str__(self) -> str:
        old, new = (re.sub(r"\s+", " ", text) for text in (self.old, self.new))
        return f"{self.file}:{self.line} {self.kind}: {old} -> {new}"

    def source(self, tree: Path) -> str:
        """The changed file; raises Gone if the source no longer has such a place."""
        if not (tree / self.file).is_file():
            raise Gone
        text = (tree / self.file).read_text()
        if text.count(self.old) == 1:
            return text.replace(self.old, self.new)
        sites = [
            site for site in all_mutations(text) if (site.kind, site.old, site.new) == (self.kind, self.old, self.new)
        ]
        sites = sorted(sites, key=lambda site: abs(site.line - self.line))
        if len(sites) <= self.place:
            raise Gone
        return sites[self.place].apply(text)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a mutant. by: the test that failed first; mark: what excludes it from `make test`."""

    mutant: Mutant
    verdict: str  #: killed, survived, unreached (no test enters it), gone (the source changed)
    by: str = ""
    mark: str = ""
    seconds: float = 0.0
    ran: int = 0  #: number of tests started, of `reached`
    reached: int = 0
    reason: str = ""  #: hand-written: why no test can detect it


def all_mutations(source: str) -> list[Mutation]:
    """The kinds of `refemu grade`, which decide committed grades, and exchanged arguments."""
    with _kinds:
        KINDS["arguments"] = _swapped
        try:
            return mutations(source)
        finally:
            del KINDS["arguments"]


def sample(tree: Path, areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants, equally many per area; files in turn, and in a file first a kind of change, then a place."""
    rng = random.Random(seed)
    chosen = []
    for number, area in enumerate(areas):
        share = (count + len(areas) - 1 - number) // len(areas)
        files = sorted((tree / "refemu" / area).rglob("*.py"))
        chosen += list(itertools.islice(_drawn(rng, tree, rng.sample(files, len(files))), share))
    return chosen


def _drawn(rng: random.Random, tree: Path, files: list[Path]) -> Iterator[Mutant]:
    """Mutants of the files in turn, repeatedly, until none is left."""
    places: dict[Path, list[Mutation]] = {}
    while len(places) < len(files) or any(places.values()):
        for file in files:
            if file not in places:
                places[file] = all_mutations(file.read_text())
            rest = places[file]
            if rest:
                kind = rng.choice(sorted({each.kind for each in rest}))
                drawn = rng.choice([each for each in rest if each.kind == kind])
                rest.remove(drawn)
                yield _mutant(file.relative_to(tree).as_posix(), drawn, file.read_text())


def _mutant(file: str, site: Mutation, text: str) -> Mutant:
    same = [each for each in all_mutations(text) if (each.kind, each.old, each.new) == (site.kind, site.old, site.new)]
    same = sorted(same, key=lambda each: abs(each.line - site.line))
    return Mutant(file, site.line, site.kind, site.old, site.new, same.index(site))


def named(tree: Path) -> list[Mutant]:
    """The hand-written mutants. Exits if one does not identify one line of its file."""
    chosen = []
    for entry in tomllib.loads(TABLE.read_text())["mutant"]:
        name, file, old, new = (entry[key] for key in ("name", "file", "old", "new"))
        text = (tree / file).read_text() if (tree / file).is_file() else ""
        if text.count(old) != 1:
            sys.exit(f"mutation: {name}: {file} must contain {old!r} once, got {text.count(old)} times")
        line = text[: text.index(old)].count("\n") + 1
        chosen.append(Mutant(file, line, name, old, new, tests=tuple(entry.get("tests", ()))))
    return chosen


@dataclass
class Reach:
    """Which tests enter which functions, and their times: files of tools/reach.py and tools/budget.py."""

    tree: Path
    folder: Path
    times: dict[str, dict[str, Any]] = field(init=False)
    functions: dict[str, dict[int, list[str]]] = field(init=False)  #: file -> first line -> tests

    def __post_init__(self) -> None:
        times = self.folder / "times.json"
        self.times = json.loads(times.read_text()) if times.is_file() else {}
        self.functions = {}
        for path in sorted((self.folder / "reach").glob("*.json")):
            record = json.loads(path.read_text())
            for test, entered in record["tests"].items():
                for number in entered:
                    file, line = record["functions"][number].rsplit(":", 1)
                    self.functions.setdefault(file, {}).setdefault(int(line), []).append(test)

    def require(self) -> None:
        """Exits if there is no record of what tests enter."""
        if not self.functions or not self.times:
            sys.exit(f"mutation: {self.folder} has no record of what tests enter; run: make mutation-reach")

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that enter the function around a mutant, nearest first; if none is known, those of its users."""
        lines = self.functions.get(mutant.file, {})
        around = _enclosing(ast.parse((self.tree / mutant.file).read_text()), mutant.line)
        for first in around:
            if lines.get(first):
                return self.nearest(mutant.file, set(lines[first]))
        if lines:  # a constant, or compiled code: any test that enters the file may reach it
            return self.nearest(mutant.file, {test for tests in lines.values() for test in tests})
        return self.nearest(mutant.file, self.of_users(mutant.file, {mutant.file}))

    def of_users(self, file: str, seen: set[str]) -> set[str]:
        """Tests that enter files which import `file`: compiled code itself is not recorded."""
        found: set[str] = set()
        for user in self.users.get(_module(file), set()) - seen:
            entered = {test for tests in self.functions.get(user, {}).values() for test in tests}
            found |= entered or self.of_users(user, seen | {user})
        return found

    @cached_property
    def users(self) -> dict[str, set[str]]:
        """Files by the modules that they import."""
        by_module: dict[str, set[str]] = {}
        for path in (self.tree / "refemu").rglob("*.py"):
            name = path.relative_to(self.tree).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                        by_module.setdefault(module, set()).add(name)
        return by_module

    @cached_property
    def breadth(self) -> Counter[str]:
        """Number of functions that each test enters."""
        return Counter(test for lines in self.functions.values() for tests in lines.values() for test in set(tests))

    def nearest(self, file: str, tests: set[str]) -> list[str]:
        """Sorted by the shared part of the path with the file, then by how few other functions they enter."""
        parts = set(Path(file).with_suffix("").parts[1:])

        def distance(test: str) -> tuple[int, int, str]:
            path = Path(test.split("::")[0]).with_suffix("")
            shared = parts & {part.removeprefix("test_") for part in path.parts[1:]}
            return -len(shared), self.breadth[test], test

        return sorted((test for test in tests if test in self.times), key=distance)

    def seconds(self, test: str) -> float:
        return float(self.times[test]["seconds"])

    def mark(self, test: str) -> str:
        return next(iter(self.times.get(test, {}).get("marks", [])), "")


def _enclosing(node: ast.AST, line: int) -> list[int]:
    """First lines, decorators included, of the functions around a line, innermost first."""
    found: list[int] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.Lambda) and inner.lineno <= line <= (inner.end_lineno or 0):
            first = [decorator.lineno for decorator in getattr(inner, "decorator_list", [])]
            found.append(min([inner.lineno, *first]))
    return found[::-1]


def _module(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def groups(reach: Reach, tests: Sequence[str], limit: float) -> Iterator[list[str]]:
    """The nearest tests of `make test`, its others, those marked `long`; at most `limit` seconds of each kind."""
    for marked in (False, True):
        spent, near, far = 0.0, list[str](), list[str]()
        for test in tests:
            seconds = reach.seconds(test) + 0.005
            if bool(reach.mark(test)) == marked and spent + seconds <= limit:
                spent += seconds
                (near if spent <= NEAREST else far).append(test)
        yield from (group for group in (near, far) if group)


def outcome(tree: Path, mutant: Mutant, reach: Reach, limit: float, first: str = "") -> Outcome:
    """Run the tests of a mutant in a copy of the tree, which is restored afterwards."""
    try:
        changed = mutant.source(tree)
    except Gone:
        return Outcome(mutant, "gone")
    tests = reach.tests(mutant)
    known = [[first]] * bool(first)  # a `long` one comes last: a quicker one may detect the mutant too
    chosen = [[*mutant.tests]] * bool(mutant.tests) + list(groups(reach, tests, limit))
    chosen = chosen + known if reach.mark(first) else known + chosen
    if not chosen:
        return Outcome(mutant, "unreached")
    file, start, ran = tree / mutant.file, time.monotonic(), 0
    before = file.read_bytes()
    try:
        _write(file, changed.encode())
        for group in chosen:
            ran += len(group)
            code, output = run(tree, group, 60 + 4 * limit)
            if code not in (PASSED, NONE_COLLECTED):
                failed = FAILED.search(output)
                by = "timeout" if code == TIMED_OUT else failed[1] if failed else output[-200:]
                return Outcome(mutant, "killed", by, reach.mark(by), time.monotonic() - start, ran, len(tests))
    finally:
        _write(file, before)
    return Outcome(mutant, "survived", "", "", time.monotonic() - start, ran, len(tests))


def run(tree: Path, tests: Sequence[str], limit: float | None) -> tuple[int, str]:
    """Exit code and output of pytest in a tree; TIMED_OUT after `limit` seconds, with all its processes ended."""
    present = [test for test in tests if (tree / test.split("::")[0]).exists()]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(present) + "\n")
        file.flush()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-rfE",
            "-p",
            "no:cacheprovider",
            "-m",
            "",
            f"@{file.name}",
        ]
        environment = os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "1000"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
        with subprocess.Popen(command, cwd=tree, env=environment, text=True, **pipes) as process:
            try:
                output = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return TIMED_OUT, process.communicate()[0]
    if process.returncode == 4 and "ERROR: not found" in output:  # a record names a removed test
        gone = set(re.findall(r"ERROR: not found: \S*?/(tests/.*)", output))
        rest = [test for test in present if test not in gone]
        return run(tree, rest, limit) if rest and len(rest) < len(present) else (PASSED, output)
    return process.returncode, output


def _write(file: Path, text: bytes) -> None:
    """Write a source without compiled code of another one of equal size and second of change."""
    file.write_bytes(text)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def outcomes(
    reach: Reach, mutants: Sequence[Mutant], jobs: int, limit: float, killers: dict[Mutant, str] | None = None
) -> Iterator[Outcome]:
    """Outcomes in the order of the mutants; each job has a copy of the tree. Unchanged kernels are compiled once."""
    os.environ.setdefault("REFEMU_CACHE", str(reach.folder / "cache"))
    with tempfile.TemporaryDirectory(prefix="refemu-mutation-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Path(shutil.copytree(reach.tree, Path(folder, str(number)), ignore=LEFT_OUT)))

        def try_out(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                return outcome(copy, mutant, reach, limit, (killers or {}).get(mutant, ""))
            finally:
                copies.put(copy)

        yield from pool.map(try_out, mutants)


def totals(results: Sequence[Outcome]) -> str:
    """By area: killed by `make test` alone, with `make test-long`, and not killed."""
    counts = Counter((result.mutant.file.split("/")[1], _kind(result)) for result in results)
    columns = ("test", "long", "equivalent", "survived", "unreached", "gone")
    lines = [f"{'':8}" + "".join(f"{name:>11}" for name in columns)]
    for area in (*sorted({area for area, _ in counts}), "all"):
        sums = [sum(n for (at, kind), n in counts.items() if kind == name and area in (at, "all")) for name in columns]
        lines.append(f"{area:8}" + "".join(f"{number:11}" for number in sums))
    return "\n".join(lines)


def _kind(result: Outcome) -> str:
    if result.verdict != "killed":
        return "equivalent" if result.reason else result.verdict
    return "long" if result.mark else "test"


def read(record: Path) -> list[Outcome]:
    """The outcomes of a record."""
    rows = json.loads(record.read_text())
    mutants = [{**row["mutant"], "tests": tuple(row["mutant"].get("tests", ()))} for row in rows]
    return [Outcome(**{**row, "mutant": Mutant(**mutant)}) for row, mutant in zip(rows, mutants, strict=True)]


def write(record: Path, results: Sequence[Outcome]) -> None:
    """A line per mutant, so that records can be compared as text; without fields that have their defaults."""
    record.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**_stated(result), "mutant": _stated(result.mutant)} for result in results]
    record.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def _stated(each: Mutant | Outcome) -> dict[str, Any]:
    return {one.name: getattr(each, one.name) for one in fields(each) if getattr(each, one.name) != one.default}


def compare(before: Sequence[Outcome], after: Sequence[Outcome]) -> str:
    """Both totals, and each mutant that another group of tests kills now, or none."""
    lines = ["before", totals(before), "after", totals(after)]
    now = {str(result.mutant): result for result in after}
    for result in before:
        other = now.get(str(result.mutant))
        if other and _kind(other) != _kind(result):
            lines.append(f"{_kind(result)} -> {_kind(other)}  {result.mutant}  {result.by} -> {other.by}")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run the command line. Returns 1 if a mutant survived; with --again, one that a test once killed."""
    options = argparse.ArgumentParser(prog="python -m tools.mutation")
    options.add_argument("--area", nargs="+", default=AREAS, help="folders of refemu to change files in")
    options.add_argument("--count", type=int, default=300, help="mutants in the sample")
    options.add_argument("--seed", type=int, default=0, help="random seed of the sample")
    options.add_argument("--named", action="store_true", help="the mutants of mutation.toml")
    options.add_argument("--again", type=Path, metavar="RECORD", help="the mutants of a record")
    options.add_argument("--compare", type=Path, nargs=2, metavar="RECORD", help="two records of the same mutants")
    options.add_argument("--survivors", action="store_true", help="with --again: only those that nothing killed")
    options.add_argument("--changed", action="store_true", help="with --again: only those whose file or test changed")
    options.add_argument("--tree", type=Path, default=ROOT, help="another checkout to copy")
    options.add_argument("--reach", type=Path, default=REACH, help="folder of the records of what tests enter")
    options.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    options.add_argument("--seconds", type=float, default=60, help="maximum processor time of tests in each group")
    options.add_argument("--record", type=Path, metavar="FILE", help="write the outcomes there, as JSON")
    options.add_argument("--list", action="store_true", help="only print the mutants")
    arguments = options.parse_args(words)
    if arguments.compare:
        print(compare(*map(read, arguments.compare)))
        return 0
    tree = arguments.tree.resolve()
    known = {result.mutant: result for result in read(arguments.again)} if arguments.again else {}
    if arguments.again:
        mutants = _again(known, arguments)
    else:
        mutants = named(tree) if arguments.named else sample(tree, arguments.area, arguments.count, arguments.seed)
    if arguments.list:
        print(*mutants, sep="\n")
        return 0
    reach = Reach(tree, arguments.reach)
    if not arguments.again:
        reach.require()
    killers, after = {mutant: known[mutant].by for mutant in mutants if mutant in known}, dict(known)
    for result in outcomes(reach, mutants, arguments.jobs, arguments.seconds, killers):
        old = known.get(result.mutant)
        if old and old.reason and result.verdict != "killed":
            result = replace(result, reason=old.reason)
        after[result.mutant] = result
        print(f"{_kind(result):9} {result.seconds:5.0f} s  {result.mutant}  {result.by}", flush=True)
        if arguments.record:
            write(arguments.record, list(after.values()))
    print(totals(list(after.values())))
    seen = ("killed", "gone")
    return int(any(after[mutant].verdict not in seen and killers.get(mutant, "new") for mutant in mutants))


def _again(known: Mapping[Mutant, Outcome], arguments: argparse.Namespace) -> list[Mutant]:
    """The mutants of a record that the command line selects."""
    mutants = [mutant for mutant, result in known.items() if not arguments.survivors or result.verdict != "killed"]
    paths = stages.changes(None) if arguments.changed else None
    if paths is None:
        return mutants
    return [mutant for mutant in mutants if {mutant.file, known[mutant].by.split("::")[0]} & set(paths)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
