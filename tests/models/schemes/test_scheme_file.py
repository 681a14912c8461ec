"""Schemes in a file: `path.py:NAME`, in mixes, and files that are rejected in one sentence."""

import re
from pathlib import Path

import pytest

from refemu import models
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from refemu.models import schemes

FILE = '''
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from refemu import models

@dataclass(frozen=True)
class Half(models.LinearScheme):
    """Weights times a factor."""

    factor: float = 0.5

    def weight(self, name: str, rows: np.ndarray) -> np.ndarray:
        return rows * np.float32(self.factor)

QUARTER = Half(factor=0.25)
OTHER = 3
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(FILE)
    return "own.py"


@pytest.mark.parametrize(
    "spec",
    ["own.py:Half", "own.py:QUARTER", "own.py:Half:factor=0.75", "own.py:Half+leankv-k8v4", "fp16@0+own.py:Half+fp16"],
)
def test_text_of_file_scheme_is_what_was_read(spec: str, file: str) -> None:
    config = schemes.parse(spec)

    assert schemes.text(config) == spec and schemes.parse(schemes.text(config)) == config


def test_mix_parts_may_come_from_files(file: str) -> None:
    spec = "own.py:Half@0:factor=2+own.py:QUARTER+fp16"

    assert [part.layers for part in schemes.parse(spec).parts] == [(0,), None, None]  # type: ignore[attr-defined]


def test_command_line_scores_a_scheme_from_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl", "--model", "tiny", "--win", "32", "--windows", "4", "--scheme", "own.py:Half:factor=1"]) == 0
    assert "equal those of scheme fp16 in all bits" in capsys.readouterr().err
    assert main(["ppl", "--model", "tiny", "--win", "32", "--windows", "4", "--scheme", "own.py:Half"]) == 0
    out, err = capsys.readouterr()

    assert "own.py:Half" in out and not err


def test_changed_file_is_read_again(file: str) -> None:
    first = schemes.parse("own.py:QUARTER")
    Path(file).write_text(FILE.replace("0.25", "0.125"))

    assert (first.factor, schemes.parse("own.py:QUARTER").factor) == (0.25, 0.125)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        pytest.param(
            "1 / 0", "X", "scheme file own.py: does not load: ZeroDivisionError: division by zero (line 1)", id="raises"
        ),
        pytest.param("a b", "X", "does not load: SyntaxError", id="syntax"),
        pytest.param("print('hi')", "X", "scheme file own.py: prints when imported, got 'hi\\n'", id="prints"),
        pytest.param("import sys; sys.exit()", "X", "scheme file own.py: exits when imported", id="exits"),
        pytest.param(FILE, "Halv", "unknown scheme of own.py: 'Halv'; did you mean 'Half'?", id="name"),
        pytest.param(FILE, "OTHER", "OTHER must be a models.LinearScheme or another Scheme, got int", id="type"),
        pytest.param(
            FILE.replace("@dataclass(frozen=True)", "").replace("QUARTER =", "#"),
            "Half",
            "put @dataclass(frozen=True) above class Half",
            id="bare",
        ),
        pytest.param(
            FILE.replace("float = 0.5", "float"), "Half", "Half() does not work without arguments", id="argument"
        ),
    ],
)
def test_broken_file_is_rejected_in_one_sentence(
    content: str, name: str, message: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(content)
    there = sorted(Path().iterdir())

    assert main(["ppl", "--model", "tiny", "--scheme", f"own.py:{name}"]) == 2
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and not out
    assert sorted(Path().iterdir()) == there
    with pytest.raises((Refused, RefusedType), match=re.escape(message)):
        models.prepare("tiny", f"own.py:{name}")


def test_missing_file_or_name_says_what_to_do() -> None:
    with pytest.raises(Refused, match=r"scheme file nope.py: No such file"):
        schemes.parse("nope.py:X")
    with pytest.raises(Refused, match=r"A scheme of your own: FILE.py:NAME, or an installed package"):
        schemes.parse("mxfp5")
