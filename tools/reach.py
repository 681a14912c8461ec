"""Pytest plug-in that records which functions of refemu each test enters, for tools/mutation.py. Python 3.12+.

    python -m pytest -p tools.reach --reach FOLDER ...

Each process writes one file into FOLDER. Compiled code and child processes are not recorded.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = 3  #: tool number of `sys.monitoring`


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", metavar="FOLDER", type=Path, required=True, help="folder for the records")


def pytest_configure(config: pytest.Config) -> None:
    if sys.version_info < (3, 12):
        raise pytest.UsageError("tools.reach: needs Python 3.12 or newer; make PYTHON=python3.13 ...")
    config.pluginmanager.register(Reach(config.getoption("--reach")))


class Reach:
    """An event for the first call of each function in a test: the interpreter then ignores it until the next test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.entered = folder, set[str]()
        self.tests: dict[str, list[str]] = {}
        self.monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        self.monitoring.use_tool_id(TOOL, "reach")
        self.monitoring.register_callback(TOOL, self.monitoring.events.PY_START, self.enter)
        self.monitoring.set_events(TOOL, self.monitoring.events.PY_START)

    def enter(self, code: CodeType, offset: int) -> Any:
        if str(code.co_filename).startswith(f"{ROOT}/refemu/"):
            self.entered.add(f"{code.co_filename[len(str(ROOT)) + 1 :]}:{code.co_firstlineno}")
        return self.monitoring.DISABLE

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered.clear()
        self.monitoring.restart_events()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid] = sorted(self.entered)

    def pytest_sessionfinish(self) -> None:
        """Functions by number: most tests enter the same ones."""
        if self.tests:
            names = sorted({name for entered in self.tests.values() for name in entered})
            number = {name: at for at, name in enumerate(names)}
            rows = {test: [number[name] for name in entered] for test, entered in self.tests.items()}
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{os.getpid()}.json").write_text(json.dumps({"functions": names, "tests": rows}))
