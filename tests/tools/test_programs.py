"""Every program of benchmarks/, tools/ and examples/ starts: run here, or by a stage or a test that is named."""

import configparser
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

from tools import bootstrap, stages

ROOT = Path(stages.ROOT)
#: what a person starts -> arguments with which it does little
STARTED = {
    "benchmarks/__main__.py": ["--list"],
    "benchmarks/every_kernel.py": ["--help"],
    "benchmarks/rows/campaign.py": ["--help"],
    "benchmarks/seeded_checkpoint.py": ["smallest", "FOLDER"],
    "benchmarks/sizes.py": ["--help"],
    "examples/kernels/run.py": ["--help"],
    "examples/rtl/constrained.py": ["--help"],
    "examples/rtl/foreign/run.py": ["--help"],
    "examples/rtl/run.py": ["--help"],
    "examples/rtl/synthesis.py": ["--help"],
    "tools/api.py": ["--check"],
    "tools/deflate.py": ["FOLDER"],
    "tools/known_types.py": ["--help"],
    "tools/lifts.py": ["--json", "ovp_decoder:int4"],
    "tools/mutation.py": ["--help"],
    "tools/notebooks.py": ["--help"],
    "tools/stages.py": ["--list", "--all"],
    "tools/tutorials.py": ["--help"],
    "tools/walk.py": ["--help"],
}
#: what runs the others: a stage of CI, or a test
ELSEWHERE = {
    "benchmarks/model_costs.py": "tests/benchmarks/test_model_costs.py",
    "examples/kernels/cuda_compressor.py": "tests/kernels/test_kernels.py",
    "examples/kernels/cuda_kernels.py": "tests/kernels/test_kernels.py",
    "examples/kernels/cuda_leankv.py": "tests/kernels/test_kernels.py",
    "examples/kernels/cuda_memory.py": "tests/kernels/test_kernels.py",
    "examples/kernels/cuda_pages.py": "tests/kernels/test_kernels.py",
    "examples/kernels/own.py": "tests/kernels/test_own.py",
    "examples/kernels/triton_compressor.py": "tests/kernels/test_kernels.py",
    "examples/kernels/triton_kernels.py": "tests/kernels/test_kernels.py",
    "examples/kernels/triton_leankv.py": "tests/kernels/test_kernels.py",
    "examples/kernels/triton_memory.py": "tests/kernels/test_kernels.py",
    "examples/kernels/triton_pages.py": "tests/kernels/test_kernels.py",
    "examples/refemu-mx/benchmark.py": "plugins",
    "examples/refemu-mx/rtl/run.py": "plugins",
    "tools/variants.py": "tests/tools/test_variants.py",
    "tools/arm64.py": "arm64",
    "tools/bootstrap.py": "test",
    "tools/budget.py": "tests/tools/test_budget.py",
    "tools/digests.py": "pythons",
    "tools/formal.py": "formal",
    "tools/grades.py": "grades",
    "tools/lock.py": "tests/tools/test_lock.py",
    "tools/picture.py": "tests/tools/test_picture.py",
    "tools/plugins.py": "plugins",
    "tools/programs.py": "programs",
    "tools/prose.py": "lint",
    "tools/pythons.py": "pythons",
    "tools/release.py": "release",
    "tools/rules/__main__.py": "lint",
    "tools/site/__main__.py": "docs",
    "tools/stubs.py": "lint",
}


def programs() -> set[str]:
    """Files that do something when they are started."""
    files = [path for folder in ("benchmarks", "tools", "examples") for path in (ROOT / folder).rglob("*.py")]
    begins = re.compile(r'^if __name__ == "__main__"', re.MULTILINE)
    return {path.relative_to(ROOT).as_posix() for path in files if begins.search(path.read_text("utf-8"))}


def test_every_program_is_started_somewhere() -> None:
    assert programs() == {*STARTED, *ELSEWHERE} and not STARTED.keys() & ELSEWHERE.keys()
    names = {stage.name for stage in stages.STAGES}
    assert [place for place in ELSEWHERE.values() if place not in names and not (ROOT / place).is_file()] == []


@pytest.mark.parametrize("name", STARTED)
def test_a_program_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / "new") if word == "FOLDER" else word for word in STARTED[name]]
    monkeypatch.setattr(sys, "argv", [name, *words])
    try:
        runpy.run_path(str(ROOT / name), run_name="__main__")
        code: object = 0
    except SystemExit as end:
        code = end.code or 0

    said = capsys.readouterr().out
    assert code == 0
    assert said or words[0] == "--check" or name == "tools/deflate.py"


#: the build backend imports setuptools, which replaces distutils in its process; tests/test_wheel.py runs it in its own
TOOLS = sorted(set((ROOT / "tools").glob("*.py")) - {ROOT / "tools" / "backend.py"})


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: path.stem)
def test_a_tool_is_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))  # some are started as files, which have their neighbours
    runpy.run_path(str(path), run_name="imported")


def test_what_the_makefile_starts_is_there() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    modules = {
        name
        for name in re.findall(r"-m ([a-z_.]+)", text)
        if name.split(".")[0] in ("benchmarks", "tools", "examples", "tests")
    }
    files = set(re.findall(r"\btools/\w+\.py", text))

    assert len(modules) > 8 and len(files) > 5
    for name in modules:
        importlib.import_module(name)
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_every_extra_of_the_makefile_can_be_installed() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    named = {
        *re.findall(r"bootstrap\.py \$\(VENV\)\S* (\S+)", text),
        *re.findall(r"for extra in ([^;]+);", text)[0].split(),
    }
    assert len(named) > 8 and named - {"$$extra"} <= set(bootstrap.CONTAINS)
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert {extra for extras in bootstrap.CONTAINS.values() for extra in extras} <= set(
        config["options.extras_require"]
    )
