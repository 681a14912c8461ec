"""The pytest plugin: the fixture `golden`, and `--refemu-save DIR` for counterexamples.

Every pytest run of an environment imports this file, so it loads nothing until it is used.
"""

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option `--refemu-save`."""
    parser.getgroup("refemu").addoption(
        "--refemu-save", metavar="DIR", help="keep what a failing `hold` found as a golden set of one case"
    )


@pytest.fixture(scope="session")
def golden() -> Callable[[str | Path], Any]:
    """A function that loads a golden set by its directory, with every check of manifest and hashes."""
    from refemu.golden import load

    return load


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Forget what an earlier test left."""
    compare: Any = sys.modules.get("refemu.testing.compare")
    if compare is not None:
        compare.last = None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Generator[None, Any, Any]:
    """Save the counterexample of a failed test, and say where."""
    report = yield
    compare: Any = sys.modules.get("refemu.testing.compare")
    folder = item.config.getoption("refemu_save")
    if folder and report.when == "call" and report.failed and compare is not None and compare.last is not None:
        from refemu.testing import save

        report.sections.append(("refemu", save.save(compare.last, Path(folder), item.nodeid)))
    return report
