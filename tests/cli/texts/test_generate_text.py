"""`refemu generate-text`: text and JSON, seeds, speed, rejected options."""

import json
from pathlib import Path

import pytest

from refemu import models
from refemu.cli import main

WORDS = ["generate-text", "--model", "tiny", "--tokens", "6"]


def test_command_prints_text_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--prompt", "The sea"]) == 0
    out, err = capsys.readouterr()

    assert out == models.generate_text("tiny", "The sea", tokens=6).text + "\n"
    assert err.startswith("refemu: 7 tokens read, 6 generated, ") and err.endswith(" a second\n")


def test_json_has_ids_and_digest_of_the_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("The sea")
    line = [*WORDS, "--text", str(tmp_path / "a.txt"), "--temperature", "1.5", "--top-k", "9", "--seed", "3", "--json"]
    assert main(line) == 0
    document = json.loads(capsys.readouterr().out)
    expected = models.generate_text("tiny", "The sea", tokens=6, temperature=1.5, top_k=9, seed=3)

    assert document["ids"] == list(expected.ids) and document["generated"] == expected.text
    assert document["prompt_ids"] == list(b"The sea") and document["text"]["name"] == str(tmp_path / "a.txt")


def test_default_prompt_is_the_start_of_the_novel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0

    assert len(json.loads(capsys.readouterr().out)["prompt_ids"]) == 32


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--prompt", ""], "the prompt must have at least one token", id="empty"),
        pytest.param(["--prompt", "a", "--text", "b"], "--prompt replaces the text", id="both"),
        pytest.param(["--top-k", "3"], "top_k needs a temperature above 0", id="top-k"),
        pytest.param(["--model", "tiny-encoder"], "predicts no next token", id="encoder"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert message in capsys.readouterr().err
