"""A kernel of the user's own against a set, and a device that is missing."""

import sys
from pathlib import Path

import pytest

from examples.kernels import host, run

RIGHT = """
import numpy as np

def ovp_decoder(pair, bias):
    code = np.stack([pair & 15, pair >> 4], axis=1)
    magnitude, negative = code & 7, code > 7
    normal = np.where(negative, code.astype(int) - 16, code)
    outlier = np.where(magnitude == 0, 0, 2 | (magnitude & 1)).astype(int)
    outlier = np.where(negative, -outlier, outlier)
    shift = (bias[:, None] + (magnitude >> 1)) & 15
    victim = code == 8
    partner = victim[:, ::-1]
    base_int = np.where(partner, outlier, normal)
    return {"exponent": np.where(partner & ~victim, shift, 0), "base_int": np.where(victim, 0, base_int)}
"""
OWN = "ovp_decoder:int4"


def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run", "--out", str(tmp_path / "sets"), *words])
    return run.main()


def test_missing_gpu_is_named_and_nothing_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "gpu", lambda: "")
    assert ran(monkeypatch, tmp_path, "--device", "cuda") == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "finds no GPU; leave out --device" in printed.err
    assert not (tmp_path / "sets").exists()


def test_right_and_wrong_kernels_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(RIGHT.replace("2 | (magnitude & 1)", "magnitude & 1"))
    assert ran(monkeypatch, tmp_path, "--own", f"{OWN}={tmp_path / 'right.py'}") == 0
    printed = capsys.readouterr().out
    assert "right.py ovp_decoder-int4 on cpu:" in printed and "equal in out.exponent, out.base_int" in printed
    assert ran(monkeypatch, tmp_path, "--own", f"{OWN}={tmp_path / 'wrong.py'}") == 1
    printed = capsys.readouterr().out
    assert "rows differ: out.base_int" in printed and "diagnosis:" in printed
    assert ran(monkeypatch, tmp_path, "--own", f"{OWN}={tmp_path / 'wrong.py'}", "--ports", "exponent") == 0
    assert "not compared (excluded by --ports): out.base_int" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no function ovp_decoder"),
        ("def ovp_decoder(pair, bias): return pair", "must return a dictionary by port"),
        ("def ovp_decoder(pair, bias): return {'exponents': pair}", "array out.exponents is not an output"),
    ],
)
def test_invalid_kernel_files_are_named(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(text)
    assert ran(monkeypatch, tmp_path, "--own", f"{OWN}={tmp_path / 'own.py'}") == 1
    assert message in capsys.readouterr().out


def test_gpu_runs_print_time_and_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With another answer of the driver, the examples run in simulators."""
    monkeypatch.setattr(host, "gpu", lambda: "a GPU")
    monkeypatch.setattr(host, "bandwidth", lambda: 1e9)
    monkeypatch.setattr(run, "UNITS", {"ovp_decoder": ("int4",)})
    assert ran(monkeypatch, tmp_path, "--device", "cuda") == 0
    printed = capsys.readouterr().out
    assert "numba.cuda ovp_decoder-int4 on" in printed and "the memory's limit is 6.0 us" in printed
