"""`refemu study olive` prints three tables, and the same in JSON."""

import json

import pytest

from refemu.cli import main

WORDS = ["study", "olive", "--tokens", "24", "--win", "12"]


def test_tables_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    tables = capsys.readouterr().out

    assert (found["study"], found["model"], found["tokens"], found["win"]) == ("olive", "tiny", 24, 12)
    assert [row["kind"] for row in found["pairs"]] == ["q", "k", "v", "o", "gate", "up", "down", "all weights",
                                                       "q.input", "o.input", "gate.input", "down.input", "all inputs"]
    assert all(f"{100 * row['normal_normal']:.4f}" in tables for row in found["pairs"])
    assert all(f"{row['error']:.3f}" in tables for row in found["rounding_errors"])
    assert all(f"{row['value']:.4f}" in tables for row in found["losses"])


def test_an_encoder_is_studied_on_paragraphs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "olive", "--model", "tiny-encoder", "--tokens", "60", "--win", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert 40 < found["tokens"] <= 60
    assert [row["kind"] for row in found["pairs"]][-5:] == ["q.input", "o.input", "up.input", "down.input",
                                                            "all inputs"]
    assert [row["measure"] for row in found["losses"]] == ["1 - cosine"] * 4


def test_without_tokens_only_weights_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "olive", "--tokens", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["losses"], len(found["pairs"]), len(found["rounding_errors"])) == ([], 8, 8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["study", "kllm"], "invalid choice: 'kllm'", id="study"),
        pytest.param(["study", "olive", "--model", "tinny"], "did you mean 'tiny'", id="model"),
        pytest.param(["study", "olive", "--tokens", "1"], "at least 2 tokens are needed, got 1", id="one token"),
        pytest.param(["study", "olive", "--tokens", "-1"], "must be at least 0, got -1", id="tokens"),
        pytest.param(["study", "olive", "--text", "nowhere.txt"], "nowhere.txt", id="text"),
    ],
)
def test_refuses(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
