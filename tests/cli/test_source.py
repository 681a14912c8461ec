"""`--text` and `--ids`: the input of a command."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.cli import main, source
from refemu.models import text


def words(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"text": None, "ids": None, **given})


def test_input_is_default_text_file_or_ids(tmp_path: Path) -> None:
    model = models.load("tiny")
    (tmp_path / "a.txt").write_text("abc")
    np.save(tmp_path / "ids.npy", np.array([7, 255], np.uint8))

    assert source.ids(model, words()) == model.tokenizer.encode(text.default())
    assert source.ids(model, words(text=str(tmp_path / "a.txt"))) == model.tokenizer.encode("abc")
    assert source.ids(model, words(ids=str(tmp_path / "ids.npy"))) == [7, 255]
    assert source.named(words(ids="x")) == "x" and source.named(words()) == ""


def test_text_with_ids_is_rejected() -> None:
    with pytest.raises(Refused, match="leave out --text"):
        source.ids(models.load("tiny"), words(text="a", ids="b"))


#: every command that reads a text
COMMANDS = {
    "ppl": ["ppl", "--model", "tiny", "--win", "8"],
    "cost": ["cost", "--tokens", "8"],
    "machine": ["machine", "--tokens", "8"],
    "generate": ["generate", "--unit", "ovp_decoder", "--kinds", "model", "-o"],
    "campaign": ["generate", "--unit", "ovp_decoder", "--layer", "0", "--tokens", "8", "-o"],
    "study": ["study", "olive", "--model", "tiny", "--windows", "2", "--win", "6"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_rejects_invalid_ids(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    out = [str(tmp_path / "out")] if COMMANDS[name][-1] == "-o" else []
    line = [*COMMANDS[name], *out, "--ids", str(tmp_path / "ids.txt")]
    (tmp_path / "ids.txt").write_text("\n".join(str(17 * i % 256) for i in range(20)))
    assert main(line) == 0
    capsys.readouterr()

    for content, message in {
        "1 2 256": "a token id must be in [0, 256), got 256 at index 2",
        "1 2.5": "a token id must be an integer, got '2.5' at index 1",
        "": "at least one token id is needed, got none",
    }.items():
        (tmp_path / "ids.txt").write_text(content)
        assert main(line) == 2
        assert message in capsys.readouterr().err


def test_ids_change_the_measurement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that dropped the option would print the same numbers."""
    found = set()
    for step in (3, 5):
        (tmp_path / "ids.txt").write_text(" ".join(str(step * i % 256) for i in range(16)))
        assert main(["ppl", "--model", "tiny", "--win", "8", "--ids", str(tmp_path / "ids.txt"), "--json"]) == 0
        found.add(capsys.readouterr().out)
    assert main(["ppl", "--model", "tiny", "--win", "8", "--tokens", "16", "--json"]) == 0

    assert len(found | {capsys.readouterr().out}) == 3
