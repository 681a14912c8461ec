"""C programs from descriptors: they compile, distinguish right from wrong, and leave the user's files alone."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from refemu import units
from refemu.cli import main
from refemu.golden.c import program
from refemu.golden.files import include
from refemu.golden.files import manifest as manifests
from tests import sanitizers
from tests.golden.committed import NAMES, VECTORS

ROOT = Path(__file__).parents[3]
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
BODY = """{
    int magnitude = (*code & 7) ? 2 | (*code & 1) : 0;
    *exponent = (*bias + (*code >> 1 & 3)) & 15;
    *base_int = (*code & 8 ? -magnitude : magnitude) & 15;
}
"""


def of_unit(unit: str) -> dict[str, object]:
    """Manifest of a committed set of a unit."""
    name = next(name for name in NAMES if name.startswith(f"{unit}-"))
    return manifests.parse((VECTORS / name / "manifest.json").read_bytes(), name)


@needs_compiler
@pytest.mark.parametrize("unit", units.names())
def test_every_unit_has_a_program_that_compiles(unit: str, tmp_path: Path) -> None:
    manifest = of_unit(unit)
    files = program.files(units.find(unit), manifests.config(manifest)) | include.files(manifest)
    assert {f"{unit}.c", f"{unit}.h", f"check_{unit}.c", "golden_set.h"} < set(files)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [str(COMPILER), *FLAGS, "-fsyntax-only", f"check_{unit}.c", f"{unit}.c"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:2000]


def test_header_is_that_of_the_examples() -> None:
    """One file: the package links to it, and a wheel has its contents."""
    unit = units.find("outlier_decoder")
    data = program.files(unit, "e2m1")["golden_set.h"]
    assert data == (ROOT / "examples" / "kernels" / "golden_set.h").read_bytes()


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    assert main(["export", "c", "outlier_decoder", "-o", str(tmp_path)]) == 0
    return tmp_path


def built(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The command in the first lines of the check, with sanitizers."""
    return run_command(folder / "check_outlier_decoder.c")


def run_command(check: Path) -> "subprocess.CompletedProcess[str]":
    command = check.read_text().splitlines()[1].strip()
    assert command.startswith("cc ")
    sanitized = command.replace("cc ", f"cc {' '.join(sanitizers.flags(shutil.which('cc')))} ", 1)
    return subprocess.run(sanitized, shell=True, cwd=check.parent, capture_output=True, text=True)


@needs_compiler
def test_wrong_function_fails_and_right_one_passes(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = exported / "outlier_decoder.c"
    stub = source.read_text()
    ran = built(exported)
    assert ran.returncode == 1 and "FAIL " in ran.stdout
    source.write_text(stub[: stub.index("{")] + BODY)
    ran = built(exported)
    assert (ran.returncode, ran.stdout[:5]) == (0, "PASS "), ran.stdout + ran.stderr
    assert main(["diff", str(exported / "outlier_decoder-e2m1"), str(exported / "answers.csv")]) == 0
    source.write_text(stub[: stub.index("{")] + BODY.replace("& 8 ?", "& 8 &&"))
    assert built(exported).returncode == 1


@needs_compiler
def test_each_differing_output_has_one_line(tmp_path: Path) -> None:
    """More than 256 rows differ, so that their count does not fit a byte."""
    assert main(["export", "c", "olive_mac", "-o", str(tmp_path)]) == 0
    ran = run_command(tmp_path / "check_olive_mac.c")
    lines = [line.split("[")[0].split()[-1] for line in ran.stdout.splitlines() if line.startswith("row ")]
    assert sorted(lines) == ["out.acc", "out.overflow", "out.product", "out.shift"]


def test_files_of_the_user_are_not_replaced(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (exported / "outlier_decoder.c").write_text("mine")
    (exported / "golden_set.h").write_text("old")
    (exported / "outlier_decoder.h").unlink()
    capsys.readouterr()
    assert main(["export", "c", "outlier_decoder", "-o", str(exported)]) == 0
    out = capsys.readouterr().out
    assert f"not overwritten: {exported / 'golden_set.h'}; this version" in out
    assert (exported / "outlier_decoder.c").read_text() == "mine" and (exported / "outlier_decoder.h").exists()
    assert json.loads((exported / "outlier_decoder-e2m1" / "manifest.json").read_text())["bin"]
    assert main(["export", "c", "outlier_decoder:e4m3", "-o", str(exported)]) == 2
    assert "belongs to another set than outlier_decoder-e4m3" in capsys.readouterr().err
