"""`refemu ppl` prints one number, and the same in JSON."""

import json
from pathlib import Path

import pytest

from refemu.cli import main

WORDS = ["ppl", "--tokens", "24", "--win", "12"]


def test_table_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0

    assert f"{row['perplexity']:.4f}" in capsys.readouterr().out
    assert (row["model"], row["scored"]) == ("tiny", 22)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--prefill", "12"], "prefill", id="nothing to score"),
        pytest.param(["--model", "tinny"], "did you mean 'tiny'", id="model"),
    ],
)
def test_refuses(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert message in capsys.readouterr().err


def test_text_that_is_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_bytes(b"caf\xe9")

    assert main(["ppl", "--text", str(tmp_path / "text.txt")]) == 2
    assert "not UTF-8, byte 0xe9 at offset 3" in capsys.readouterr().err
