"""The plugin from a user's side: a test of ten lines finds a wrong rule; `refemu diff` explains what it saved."""

import subprocess
import sys
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli import main

TEST = """
from hypothesis import given
from refemu.testing import hold, inputs
from refemu.units import find

def my_encoder(value):  # keeps the left of two outliers, where the paper keeps the larger
    unit = find("ovp_encoder")
    left = next(one for one in unit.variants if "left one" in one.says)
    return unit.evaluate(left.apply(unit.configs["int4"]), {"value": value}, jit=False).pair

@given(inputs("ovp_encoder", "int4"))
def test_my_encoder(stimulus):
    hold("ovp_encoder", "int4", stimulus, pair=my_encoder(stimulus["value"]))

def test_golden(golden):
    assert golden("SETS/ovp_decoder-int4").rows == 1
"""


def pytest_on(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)


def test_wrong_rule_is_shrunk_saved_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_mine.py").write_text(TEST.replace("SETS", str(tmp_path / "sets")))
    ran = pytest_on(tmp_path, "--refemu-save", "found", "-k", "encoder")

    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "refemu: what the design did" in ran.stdout and "D-olive-5" in ran.stdout
    assert "refemu diff found/test_mine_py_test_my_encoder-c892b71a/ovp_encoder-int4" in ran.stdout
    saved = tmp_path / "found" / "test_mine_py_test_my_encoder-c892b71a"
    made = golden.load(saved / "ovp_encoder-int4")
    entry = made.manifest["cases"][-1]
    assert (entry["cases"], entry["why"]) == (1, "counterexample of test_mine.py::test_my_encoder")
    assert main(["diff", str(saved / "ovp_encoder-int4"), str(saved / "dut.npz"), "--explain", "--ports", "pair"]) == 1
    assert "D-olive-5: the left one of two outliers is stored" in capsys.readouterr().out
    assert main(["check", str(saved)]) == 0
    assert "hashes" in capsys.readouterr().out


IDS = """
import numpy as np, pytest
from refemu.testing import hold

@pytest.mark.parametrize("k", ["1", "-1", "a b", "a-b", "x" * 300, "é/" * 90])
def test_k(k):
    hold("flint_decoder", None, {"code": np.arange(4)}, base_int=np.full(4, 7))
"""


@pytest.mark.long
@pytest.mark.parametrize("folder", ["found", "/proc/found"])
def test_every_counterexample_has_its_own_folder(folder: str, tmp_path: Path) -> None:
    """Ids that differ in signs and spaces only, ids longer than a file name, a folder without write access."""
    (tmp_path / "test_ids.py").write_text(IDS)
    ran = pytest_on(tmp_path, "--refemu-save", folder)

    assert "6 failed" in ran.stdout and "INTERNALERROR" not in ran.stdout + ran.stderr
    if folder == "found":
        assert len(list((tmp_path / folder).iterdir())) == ran.stdout.count("counterexample saved") == 6
    else:
        assert ran.stdout.count("the counterexample is not saved: /proc/found") == 6


def test_the_fixture_checks_what_it_loads(tmp_path: Path) -> None:
    golden.generate(tmp_path / "sets", units=["ovp_decoder"], kinds=["paper"])
    (tmp_path / "test_mine.py").write_text(TEST.replace("SETS", str(tmp_path / "sets")).replace("rows == 1", "rows"))
    assert "1 passed" in pytest_on(tmp_path, "-k", "golden").stdout
    vectors = tmp_path / "sets" / "ovp_decoder-int4" / "vectors.npz"
    vectors.write_bytes(vectors.read_bytes()[:-40] + b"x" + vectors.read_bytes()[-39:])
    assert "1 failed" in pytest_on(tmp_path, "-k", "golden").stdout


def test_hooks_import_next_to_nothing() -> None:
    """Every pytest run in the environment pays for the hooks."""
    code = (
        "import sys, refemu.testing, refemu.testing.plugin; refemu.testing.register(); "
        "print(sorted({'numpy', 'numba', 'refemu.units', 'refemu.formats', 'hypothesis'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
