"""`refemu ppl` prints one number, and the same in JSON."""

import json
import math
from pathlib import Path

import pytest

from refemu.cli import main

WORDS = ["ppl", "--model", "tiny", "--tokens", "24", "--win", "12"]


def test_table_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    table = capsys.readouterr().out

    assert f"{row['perplexity']:.4f}" in table and f"{row['error']:.4f}" in table
    assert (row["model"], row["scored"], row["seeded"]) == ("tiny", 22, True)
    assert "tiny (seeded net, not trained)" in table
    each = [math.log(value) for value in row["windows"]]
    mean = math.fsum(each) / 2
    assert row["perplexity"] == pytest.approx(math.exp(mean))
    assert row["error"] == pytest.approx(row["perplexity"] * math.sqrt(math.fsum((x - mean) ** 2 for x in each) / 2))


def test_windows_cut_the_text_and_one_has_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl", "--model", "tiny", "--win", "12", "--windows", "1", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)

    assert (row["tokens"], len(row["windows"]), row["error"]) == (12, 1, None)


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

    assert main(["ppl", "--model", "tiny", "--text", str(tmp_path / "text.txt")]) == 2
    assert "not UTF-8, byte 0xe9 at offset 3" in capsys.readouterr().err
