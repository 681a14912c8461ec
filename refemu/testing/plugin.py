"""The pytest plugin: the fixture `golden`, and `--refemu-save DIR` for counterexamples.

Every pytest run of an environment imports this file, so it loads nothing until it is used.
"""

import contextlib
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--refemu-save`."""
    parser.getgroup("refemu").addoption(
        "--refemu-save", metavar="DIR", help="save the counterexample of a failing `hold` as a golden set of one case"
    )


@pytest.fixture(scope="session")
def golden() -> Callable[[str | Path], Any]:
    """A function that loads the golden set of a directory and checks its manifest and hashes."""
    from refemu.golden import load

    return load


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Forget the comparisons of earlier tests."""
    compare: Any = sys.modules.get("refemu.testing.compare")
    if compare is not None:
        compare.last = None
        compare.tried.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Generator[None, Any, Any]:
    """Explain the design of a failed test, and with `--refemu-save` save the counterexample."""
    report = yield
    compare: Any = sys.modules.get("refemu.testing.compare")
    if report.when != "call" or not report.failed or compare is None or compare.last is None:
        return report
    from refemu.testing import explain, save

    with _reported(report, "what the design did is not explained"):
        lines = explain.lines(compare.last, compare.tried)
        if lines:
            report.sections.append(("refemu: what the design did", "\n".join(lines)))
    folder = item.config.getoption("refemu_save")
    if folder:
        with _reported(report, "the counterexample is not saved"):
            report.sections.append(("refemu", save.save(compare.last, Path(folder), item.nodeid)))
    return report


@contextlib.contextmanager
def _reported(report: pytest.TestReport, what: str) -> Generator[None]:
    """Add an error to this test's report; raised in a hook, it would end the session."""
    try:
        yield
    except Exception as error:
        report.sections.append(("refemu", f"{what}: {error}"))
