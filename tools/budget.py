"""Processor time of each test and its budget; skipped tests with reasons, and how to rerun them.

A test that hangs is stopped and named. tests/marks.txt lists the tests that are `long` or `slow` by measured time;
`python -m tools.budget RECORD ...` regenerates it from records of --times.

Options of pytest, which tests/conftest.py registers:
--times=FILE        write every test's seconds, result and reason there, as JSON
--rerun-skipped=FILE  run only the tests that are skipped in FILE
"""

import faulthandler
import gc
import itertools
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "marks.txt"
HEAD = "# Tests that `make test` leaves out for their time: python -m tools.budget RECORD ... writes this list."
BUDGET = 1.0  #: seconds of processor time, children included, of a test without a mark
#: seconds from which a test is marked. Below BUDGET, so that all unmarked tests fit into five minutes
LISTED = {"slow": 5.0, "long": 0.12}
#: tests of many seconds that are `long`: no quicker test checks the same
KEPT_LONG = (
    "tests/test_vectors.py::test_every_byte_is_regenerated",
    "tests/test_wheel.py",
    "tests/test_environment.py",
    "tests/golden/campaign/test_cluster.py",
    "tests/golden/test_golden.py",
    "tests/golden/start/test_your_paper.py",
    "tests/tools/test_tutorials.py::test_a_run_prints_what_is_committed[kernel]",
    "tests/tools/test_tutorials.py::test_a_run_prints_what_is_committed[verification]",
    "tests/arith/kernels/test_kernels.py",
)
#: tests that remain in `make test`: no quicker test detects their mutants (tools/mutation.json)
KEPT_FAST = (
    "tests/arith/attention/test_scores.py::test_tanh_of_edges_and_of_many_values",
    "tests/formats/olive/test_ovp_search.py::test_type_with_least_sum_of_errors_wins[readable]",
    "tests/models/prepared/test_schemes.py::test_factors_are_learned_once",
    "tests/studies/leankv/test_experiments.py::test_equal_budget_is_share_of_row_before",
)
#: factor above its budget at which a test fails: processors and their load differ
TOLERANCE = 6.0
LARGEST = 10
MARKS = ("long", "slow")
SECONDS, COMPILED = "processor_seconds", "compiler_seconds"


def add_options(parser: pytest.Parser) -> None:
    """The two options."""
    parser.addoption("--times", metavar="FILE", type=Path, help="write each test's processor time and result as JSON")
    parser.addoption(
        "--rerun-skipped", metavar="FILE", type=Path, help="run only the tests that the run with --times=FILE skipped"
    )


@settings(max_examples=1, database=None)
@given(st.none())
def first_test_of_hypothesis(_: None) -> None:
    """Do nothing: hypothesis registers its random generator during its first test."""


class Clock:
    """Measures each test in the process that runs it. A test above its budget fails where CI is set."""

    def __init__(self, config: pytest.Config) -> None:
        self.start = self.compiled = self.call = 0.0
        self.compiler: Any = None
        self.limit = (config.getoption("timeout", None) or 0) * 1.2  #: seconds; --timeout cannot end compiled code
        self.stderr = os.fdopen(os.dup(2), "w")  # pytest replaces descriptor 2
        gc.disable()

    def pytest_collection_finish(self) -> None:
        """Exclude tests and modules from garbage collection, which would visit millions of permanent objects."""
        first_test_of_hypothesis()  # before freezing: on Python 3.14 it warns if the generator's holder is frozen
        gc.freeze()
        gc.enable()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        if self.compiler is None and "numba" in sys.modules:
            self.compiler = compiler()
        self.start, self.compiled, self.call = self.seconds(), self.compiler_seconds(), 0.0
        if self.limit:
            faulthandler.dump_traceback_later(self.limit, exit=True, file=self.stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        start = self.seconds()
        try:
            return (yield)
        finally:
            self.call = self.seconds() - start

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: Any = yield
        if report.when == "teardown":
            seconds = self.seconds() - self.start
            report.user_properties.append((SECONDS, round(seconds, 3)))
            report.user_properties.append((COMPILED, round(self.compiler_seconds() - self.compiled, 3)))
            if report.passed and over_budget(item, self.call):  # without shared fixtures
                report.outcome = "failed"
                report.longrepr = (
                    f"{item.nodeid}: {self.call:.1f} s of processor time, the budget is {BUDGET:.0f} s; "
                    "make it faster or mark it `long`"
                )
        return report

    def seconds(self) -> float:
        """Processor time of this process without numba's compiler, whose work is cached, and of its ended children."""
        return sum(os.times()[:4]) - self.compiler_seconds()

    def compiler_seconds(self) -> float:
        return self.compiler.seconds if self.compiler else 0.0


def compiler() -> Any:
    """A listener that sums the seconds in which numba compiles; nested functions count once."""
    from numba.core import event

    class Compiler(event.Listener):
        seconds, depth, start = 0.0, 0, 0.0

        def on_start(self, event: Any) -> None:
            if not self.depth:
                self.start = time.process_time()
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth:
                self.seconds += time.process_time() - self.start

    listener = Compiler()
    event.register("numba:compile", listener)
    return listener


def over_budget(item: pytest.Item, seconds: float) -> bool:
    """Whether an unmarked test takes too long. Only in CI: elsewhere kernels may be compiled in between."""
    marked = any(item.get_closest_marker(mark) for mark in (*MARKS, "committed")) or "conformance" in item.path.parts
    return not marked and seconds > BUDGET * TOLERANCE and os.environ.get("CI", "").lower() not in ("", "0", "false")


class Table:
    """Collects measurements in the process that prints the summary."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {"seconds": 0.0, "result": "passed"})
        if report.skipped:
            test["result"], test["reason"] = "skipped", reason(report)
        elif report.failed:
            test["result"] = "failed"
        if report.when == "teardown":
            properties = dict(report.user_properties)
            test["seconds"], test["compiled"] = properties.get(SECONDS, 0.0), properties.get(COMPILED, 0.0)
            test["marks"] = [mark for mark in MARKS if mark in report.keywords]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        skipped = Counter(test["reason"] for test in self.tests.values() if test["result"] == "skipped")
        if skipped:
            terminalreporter.section("skipped")
            for text, count in sorted(skipped.items()):
                terminalreporter.write_line(f"{count:6}  {text}")
        largest = sorted(self.tests.items(), key=lambda pair: -pair[1]["seconds"])[:LARGEST]
        if largest:
            total, compiled = (
                sum(test.get(key, 0.0) for test in self.tests.values()) for key in ("seconds", "compiled")
            )
            text = (
                f"largest of {len(self.tests)} tests, {total:.0f} s of processor time and {compiled:.0f} s of numba's"
            )
            terminalreporter.section(text)
            for name, test in largest:
                terminalreporter.write_line(f"{test['seconds']:6.1f} s  {name}")
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            temporary.write_text(json.dumps(self.tests, indent=0) + "\n")
            temporary.replace(self.file)


def reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, without paths and line numbers."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return re.sub(r"\s+", " ", text.removeprefix("Skipped: "))


def mark_listed(items: list[pytest.Item]) -> None:
    """Mark the listed tests: a test, or every test of a function."""
    marks = read(LIST.read_text("utf-8"))
    for item in items:
        mark = marks.get(item.nodeid) or marks.get(item.nodeid.split("[")[0])
        if mark == "slow" or (mark and not any(item.get_closest_marker(other) for other in MARKS)):
            item.add_marker(mark)


def read(text: str) -> dict[str, str]:
    """Marks by the name of a test or a function: `mark  file`, then names, then parameters of names that end in `[`."""
    marks, mark, file, start = dict[str, str](), "", "", ""
    for line in text.splitlines():
        if line.startswith("    "):
            marks[start + line[4:]] = mark
        elif line.startswith("  "):
            start = f"{file}::{line[2:]}"
            marks |= {start: mark} if line[-1] != "[" else {}
        elif not line.startswith("#"):
            mark, file = line.split("  ")
    return marks


def written(marks: Mapping[str, str]) -> str:
    """The list of these marks."""
    lines = [HEAD]
    tests = sorted((*test.split("::", 1), mark) for test, mark in marks.items())
    for (file, mark), group in itertools.groupby(sorted(tests, key=itemgetter(0, 2)), itemgetter(0, 2)):
        lines.append(f"{mark}  {file}")
        for function, same in itertools.groupby((name for _, name, _ in group), lambda name: name.split("[")[0]):
            names = list(same)
            of_function = [f"  {function}[", *(f"    {name[len(function) + 1 :]}" for name in names)]
            lines += of_function if len(names) > 1 else [f"  {names[0]}"]
    return "\n".join(lines) + "\n"


def listed(times: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Marks by test, or one for a function if most of its tests have the same mark."""
    functions: dict[str, dict[str, str]] = {}
    for name, test in times.items():
        mark = next((mark for mark, least in LISTED.items() if test["seconds"] >= least), "")
        if mark == "slow" and name.startswith(KEPT_LONG):
            mark = "long"
        if name in KEPT_FAST:
            mark = ""
        functions.setdefault(name.split("[")[0], {})[name] = mark
    marks = dict[str, str]()
    for function, tests in functions.items():
        counts = Counter(tests.values())
        for mark in LISTED:
            if mark == "long" and counts[mark] >= 0.6 * len(tests) and len(tests) > 1:
                marks |= {function: mark} | {name: other for name, other in tests.items() if other == "slow"}
                break
        else:
            marks |= {name: mark for name, mark in tests.items() if mark}
    return marks


def keep_skipped(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that the run of --rerun-skipped did not skip."""
    file = config.getoption("--rerun-skipped")
    if file is None:
        return
    wanted = {name for name, test in json.loads(file.read_text()).items() if test["result"] == "skipped"}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
    items[:] = [item for item in items if item.nodeid in wanted]


def main(words: Sequence[str]) -> None:
    """Write the list from records."""
    times: dict[str, dict[str, Any]] = {}
    for record in words:
        times.update(json.loads(Path(record).read_text()))
    LIST.write_text(written(listed(times)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
