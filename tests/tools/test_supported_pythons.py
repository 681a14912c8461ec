"""The supported versions of Python are the same wherever they are named, and the tools that try them can fail."""

import configparser
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`tool(name)` is the module tools/<name>.py."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module


def config() -> configparser.ConfigParser:
    """setup.cfg."""
    parsed = configparser.ConfigParser()
    parsed.read(ROOT / "setup.cfg")
    return parsed


def test_every_supported_python_is_named_everywhere(tool: Any) -> None:
    versions = tool("pythons").VERSIONS

    assert re.findall(r"Python :: (3\.\d+)", config()["metadata"]["classifiers"]) == versions
    assert config()["options"]["python_requires"] == f">={versions[0]}"
    assert config()["mypy"]["python_version"] == versions[0]
    assert f"Python {versions[0]} to {versions[-1]};" in (ROOT / "README.md").read_text()
    assert f"every Python {versions[0]} to {versions[-1]} " in (ROOT / "Makefile").read_text()


def test_the_tests_that_every_python_runs_exist(tool: Any) -> None:
    assert [path for path in tool("pythons").TESTS if not (ROOT / path).is_file()] == []


def test_no_library_has_an_upper_bound() -> None:
    """numba itself says which NumPy it works with."""
    wanted = [config()["options"]["install_requires"], *config()["options.extras_require"].values()]

    assert not [line for lines in wanted for line in lines.split("\n") if "<" in line]


@pytest.fixture
def matrix(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Callable[..., tuple[Any, str]]:
    """`matrix(3.12=..., ...)`: exit code and output of tools/pythons.py where interpreters print these digests."""
    pythons, debian, interpreters = map(tool, ("pythons", "debian", "interpreters"))
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"

    def run(others: dict[str, dict[str, str]], failing: str = "") -> tuple[Any, str]:
        def native(version: str, folder: Path) -> Any:
            if version != mine and version not in others:
                raise debian.Missing("no such packages")
            return interpreters.Interpreter(Path(version), version)

        monkeypatch.setattr(pythons, "native", native)
        monkeypatch.setattr(pythons, "digests", lambda one, folder: others.get(one.origin, {"a": "1", "b": "2"}))
        monkeypatch.setattr(pythons, "tests", lambda one: ["tests fail"] if one.origin == failing else [])
        monkeypatch.setattr(sys, "argv", ["pythons.py", str(tmp_path)])
        with pytest.raises(SystemExit) as stop:
            pythons.main()
        return stop.value.code, capsys.readouterr().out

    return run


def other(tool: Any) -> str:
    """A version that does not run these tests."""
    return next(v for v in tool("pythons").VERSIONS if v != f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_equal_digests_pass_and_absent_interpreters_are_named(matrix: Any, tool: Any) -> None:
    code, out = matrix({other(tool): {"a": "1", "b": "2"}})

    assert code == 0 and f"Python {other(tool)} ({other(tool)}): 2 digests equal, tests passed" in out
    assert out.count("not available: no such packages") == len(tool("pythons").VERSIONS) - 2
    assert re.search(r"^ran 3\.\d+, 3\.\d+; not available: 3\.\d+, 3\.\d+$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("digests", "problem"),
    [
        ({"a": "1", "b": "3"}, "1 of 2 digests differ: b"),
        ({"a": "1"}, "1 of 2 digests differ: b"),
        ({"a": "1", "b": "2", "c": "3"}, "1 of 3 digests differ: c"),
        ({"failure": "Traceback"}, "tools/digests.py failed\nTraceback"),
    ],
)
def test_other_digests_fail(matrix: Any, tool: Any, digests: dict[str, str], problem: str) -> None:
    code, out = matrix({other(tool): digests})

    assert code == f"differ or fail: {other(tool)}" and problem in out


def test_failing_tests_fail(matrix: Any, tool: Any) -> None:
    code, out = matrix({other(tool): {"a": "1", "b": "2"}}, failing=other(tool))

    assert code == f"differ or fail: {other(tool)}" and f"Python {other(tool)} ({other(tool)}): tests fail" in out


@pytest.mark.parametrize(
    ("emulated", "code", "said"),
    [
        ({"a": "1"}, 0, "aarch64 (packages): 1 digests equal those of"),
        ({"a": "2"}, 1, "aarch64 (packages): 1 of 1 digests differ: a"),
        (None, None, "arm64: skipped, not available here: no such packages"),
    ],
)
def test_aarch64_passes_fails_or_is_skipped_visibly(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, emulated: Any, code: int | None, said: str
) -> None:
    arm64, debian, interpreters = map(tool, ("arm64", "debian", "interpreters"))

    def interpreter(folder: Path) -> Any:
        if emulated is None:
            raise debian.Missing("no such packages")
        return interpreters.Interpreter(Path("emulated"), "packages")

    monkeypatch.setattr(arm64, "interpreter", interpreter)
    monkeypatch.setattr(arm64, "digests", lambda one, folder: emulated if one.origin == "packages" else {"a": "1"})
    monkeypatch.setattr(arm64.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "argv", ["arm64.py", str(tmp_path)])
    if code is None:
        arm64.main()
    else:
        with pytest.raises(SystemExit) as stop:
            arm64.main()
        assert stop.value.code == code
    assert said in capsys.readouterr().out


def test_a_machine_without_apt_has_no_packages(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = tool("debian")
    monkeypatch.setattr(debian.shutil, "which", lambda name: None)

    with pytest.raises(debian.Missing, match="this machine has no apt and dpkg"):
        debian.first_with(tmp_path, "arm64", ["python3.11"])
