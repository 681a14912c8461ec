"""The result for a folder of sets and answers: every set with its answers, differences, coverage and commands."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import reading
from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.compare import answer_files, diff_text
from refemu.golden.compare.diff import Difference, compare
from refemu.golden.files import npz, sets
from refemu.golden.files.sets import Golden
from refemu.golden.report import campaigns, commands, coverage, logs, places
from refemu.golden.report.campaigns import Campaign
from refemu.golden.report.commands import Command
from refemu.golden.report.coverage import CLASSES, Coverage, Grading
from refemu.golden.report.logs import Log
from refemu.golden.report.places import Files

PASS: Final = "pass"
FAIL: Final = "fail"
MISSING: Final = "not compared"
MALFORMED: Final = "malformed"
Outcome: TypeAlias = Literal["pass", "fail", "not compared", "malformed"]
ORDER: Sequence[Outcome] = (FAIL, MALFORMED, MISSING, PASS)  #: the worst first
Form: TypeAlias = Literal["answers", "log"]
Kind: TypeAlias = Literal["set", "shard", "counterexample"]
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Answer:
    """A device's answer to a set, or the log of a testbench that compared it."""

    path: str  #: path in the folder of the regression
    form: Form
    outcome: Outcome
    reason: str = ""  #: why it is malformed, not compared, or fails without a difference
    rows: int | None = None  #: compared rows; None if unknown
    rows_differ: int | None = None
    difference: Difference | None = None
    lines: tuple[str, ...] = ()  #: the difference as text of `refemu diff`, or lines of the log
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Reported:
    """A set and all answers to it."""

    path: str  #: path in the folder of the regression
    name: str
    outcome: Outcome  #: the worst result of its answers
    kind: Kind = "set"
    reason: str = ""  #: why the set is malformed or not compared
    unit: str = ""
    config: str = ""
    sha256: str = ""  #: `self_sha256` of the manifest
    rows: int = 0
    seed: int = 0
    campaign: str = ""  #: path of the campaign that has it as a shard
    answers: tuple[Answer, ...] = ()
    coverage: Coverage | None = None
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Regression:
    """Result of a regression."""

    folder: str
    grading: Grading
    sets: tuple[Reported, ...]
    logs: tuple[Answer, ...] = ()  #: logs of missing sets
    campaigns: tuple[Campaign, ...] = ()

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """Number of sets by result."""
        return {outcome: len([each for each in self.sets if each.outcome == outcome]) for outcome in reversed(ORDER)}

    @property
    def outcome(self) -> Outcome:
        """The worst result of all sets, logs and campaigns."""
        outcomes = [each.outcome for each in self.sets] + [each.outcome for each in self.logs]
        return worst([*outcomes, *(PASS if each.whole else MISSING for each in self.campaigns)])

    @property
    def code(self) -> int:
        """Exit code: 0 all pass, 1 a device differs, 2 a set was not compared."""
        return 0 if self.outcome == PASS else 1 if self.outcome == FAIL else 2


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """The worst of some results; "not compared" if there are none."""
    return min(outcomes, key=ORDER.index) if outcomes else MISSING


def regression(folder: str | Path, grading: str = "fast", progress: Progress | None = None) -> Regression:
    """Compare everything at or below a folder.

    grading: one of GRADINGS. progress(what, done, total). Refused: there is no set, or an unknown `grading`.
    """
    lookup("grading", grading, {name: name for name in coverage.GRADINGS})
    root = Path(folder)
    files = places.find(root, campaign_folder.REQUEST)
    return _Collector(root, files, cast(Grading, grading)).all(progress)


@dataclass(eq=False)
class _Collector:
    """Files of a regression, and results so far."""

    root: Path
    files: Files
    grading: Grading
    graded: dict[str, Coverage] = field(default_factory=dict)  # by digest of the set
    explained: set[tuple[str, str]] = field(default_factory=set)  # campaign and name of a set

    def all(self, progress: Progress | None) -> Regression:
        loaded = {folder: self._loaded(folder) for folder in self.files.sets}
        of_set, stray = self._shared(loaded)
        reported = []
        for done, (folder, golden) in enumerate(loaded.items()):
            if progress:
                progress("report", done, len(loaded))
            reported.append(self._set(folder, golden, of_set.get(folder, [])))
        if progress:
            progress("report", len(loaded), len(loaded))
        known = tuple(campaigns.read(each, self._path(each)) for each in self.files.campaigns)
        lost = tuple(self._stray(log) for log in stray)
        return Regression(str(self.root), self.grading, tuple(reported), lost, known)

    def _path(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path != self.root else "."

    def _loaded(self, folder: Path) -> Golden | str:
        """A set, or the reason why it is unreadable."""
        try:
            return sets.load(folder)
        except (Refused, OSError) as refusal:
            return str(refusal)

    def _shared(self, loaded: Mapping[Path, Golden | str]) -> tuple[dict[Path, list[Log]], list[Log]]:
        """Logs by set, and logs of missing sets."""
        of_set: dict[Path, list[Log]] = {}
        stray = []
        for path in self.files.logs:
            log = logs.read(path)
            folder = next(self._sets_of(log, loaded), None)
            if folder is not None:
                of_set.setdefault(folder, []).append(log)
            elif log.is_of_bench:
                stray.append(log)
        return of_set, stray

    def _sets_of(self, log: Log, loaded: Mapping[Path, Golden | str]) -> Iterator[Path]:
        """Sets of a log, the likeliest first: by digest, by testbench, by name."""
        known = {folder: golden for folder, golden in loaded.items() if isinstance(golden, Golden)}
        bench = log.path.parent.parent if log.bench else None
        if log.passed:
            same = [folder for folder, golden in known.items() if golden.manifest["self_sha256"] == log.passed[2]]
            yield from sorted(same, key=lambda folder: folder.parent != bench)
        yield from (folder for folder, golden in known.items() if bench and places.bench_of(folder, golden) == bench)
        if log.is_of_bench:
            yield from places.names_of(log.path, list(known))

    def _set(self, folder: Path, golden: Golden | str, of_set: Sequence[Log]) -> Reported:
        path = self._path(folder)
        if isinstance(golden, str):
            return Reported(path, folder.name, MALFORMED, reason=golden)
        campaign = next((each for each in self.files.campaigns if folder.is_relative_to(each)), None)
        kind: Kind = "counterexample" if places.is_counterexample(golden) else "shard" if campaign else "set"
        inside = self._path(campaign) if campaign else ""
        answers = [self._answer(folder, golden, answer, inside) for answer in places.answers(folder, golden)]
        answers += [self._log(folder, golden, log) for log in of_set]
        outcome = worst([answer.outcome for answer in answers])
        return Reported(
            path,
            golden.name,
            outcome,
            kind,
            "" if answers else "no answer",
            golden.manifest["unit"],
            golden.config,
            golden.manifest["self_sha256"],
            golden.rows,
            golden.manifest["seed"],
            inside,
            tuple(answers),
            self._coverage(folder, golden, kind),
            tuple(commands.of_set(golden)),
        )

    def _coverage(self, folder: Path, golden: Golden, kind: Kind) -> Coverage:
        """Coverage of a set; a counterexample has no grade."""
        digest = golden.manifest["self_sha256"]
        if digest not in self.graded:
            classes = () if kind == "counterexample" else CLASSES[self.grading]
            self.graded[digest] = coverage.coverage(folder, golden, classes)
        return self.graded[digest]

    def _answer(self, folder: Path, golden: Golden, path: Path, campaign: str) -> Answer:
        name = self._path(path)
        try:
            ports = _ports(path) if path.name == places.SAVED_ANSWER else None
            answer = answer_files.read(path, golden, ports)
            difference = compare(golden, answer)
            lacking = [array for array in difference.not_compared if array.startswith("out.")]
            if lacking and ports is None:  # an answer without a port would pass however wrong that port is
                raise Refused(f"{name}: has no {', '.join(lacking)}; a regression compares every output of a set")
            if not difference.equal and self._is_new(campaign, golden.name):
                difference = compare(golden, answer, explain_=True)
        except (Refused, OSError) as refusal:
            return Answer(name, "answers", MALFORMED, str(refusal))
        bench = places.bench_of(folder, golden) if path.name == places.BENCH_ANSWER.name else None
        again = commands.all_of(folder, golden, path, difference, bench)
        return Answer(
            name,
            "answers",
            PASS if difference.equal else FAIL,
            "",
            difference.rows,
            difference.rows_differ,
            difference,
            tuple(diff_text.lines(difference)),
            () if difference.equal else again,
        )

    def _is_new(self, campaign: str, name: str) -> bool:
        """Whether to explain a difference: once for all shards of a set."""
        key = campaign, name
        seen = bool(campaign) and key in self.explained
        self.explained.add(key)
        return not seen

    def _log(self, folder: Path, golden: Golden, log: Log) -> Answer:
        name, bench = self._path(log.path), log.path.parent.parent if log.bench else None
        again = tuple(commands.of_bench(bench, folder)) if bench else ()
        if not log.reason and log.passed:
            if log.passed[2] == golden.manifest["self_sha256"]:
                return Answer(name, "log", PASS, "", log.passed[0], 0)
            return Answer(name, "log", MISSING, _stale(log), commands=again)
        try:
            difference = logs.difference(log, golden)
        except Refused as refusal:
            return Answer(name, "log", FAIL, f"{log.reason} ({refusal})", lines=log.failed, commands=again)
        if difference is None:
            differ, rows = log.counted or (None, None)
            return Answer(name, "log", FAIL, log.reason, rows, differ, lines=log.failed, commands=again)
        again = commands.all_of(folder, golden, None, difference, bench)
        differ, rows, lines = difference.rows_differ, difference.rows, tuple(diff_text.lines(difference))
        return Answer(name, "log", FAIL, log.reason, rows, differ, difference, lines, again)

    def _stray(self, log: Log) -> Answer:
        """The result of a missing set's log."""
        name = self._path(log.path)
        if log.reason:
            return Answer(name, "log", FAIL, log.reason, lines=log.failed)
        return Answer(name, "log", MISSING, _stale(log))


def _stale(log: Log) -> str:
    """Reason of a pass of a missing set."""
    rows, name, digest = log.passed or (0, "", "")
    return f"PASS of {rows} rows of {name}, sha256 {digest}, which is missing; rerun the testbench"


def _ports(path: Path) -> list[str]:
    """Outputs in a saved answer: those of the test."""
    with reading(str(path), "a readable answer"):
        names = npz.Archive(path.read_bytes(), str(path)).names
    return [places.port(name) for name in names if places.is_output(name)]
