"""`refemu ppl`: table, JSON, token ids and errors."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.cli import main
from tests.models import toy_files

WORDS = ["ppl", "--model", "tiny", "--tokens", "24", "--win", "12"]


def test_ppl_table_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    table = capsys.readouterr().out

    assert f"{row['perplexity']:.4f}" in table and f"{row['error']:.4f}" in table
    assert (row["model"], row["scored"], row["seeded"]) == ("tiny", 22, True)
    assert "tiny (untrained random weights)" in table
    each = [math.log(value) for value in row["windows"]]
    mean = math.fsum(each) / 2
    assert row["perplexity"] == pytest.approx(math.exp(mean))
    assert row["error"] == pytest.approx(row["perplexity"] * math.sqrt(math.fsum((x - mean) ** 2 for x in each) / 2))


def test_single_window_has_no_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_invalid_options_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, *words]) == 2
    assert message in capsys.readouterr().err


def test_text_without_utf8_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_bytes(b"caf\xe9")

    assert main(["ppl", "--model", "tiny", "--text", str(tmp_path / "text.txt")]) == 2
    assert "not UTF-8, byte 0xe9 at offset 3" in capsys.readouterr().err


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A model without a tokenizer, and two files of token ids."""
    toy_files.write_safetensors(tmp_path / "toy", toy_files.values(toy_files.CONFIG))
    for number in (1, 2):
        (tmp_path / f"{number}.txt").write_text(" ".join(str(7 * number * i % 300) for i in range(40)), "utf-8")
    return tmp_path


@pytest.mark.parametrize("scheme", ["olive-4", "harmonia-kv4"])
def test_calibrating_scheme_runs_without_tokenizer(scheme: str, bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It calibrates on token ids, and different ids give another perplexity."""
    words = ["ppl", "--model", str(bare / "toy"), "--ids", str(bare / "1.txt"), "--win", "20", "--scheme", scheme]
    assert main(words) == 2
    assert "the folder of the weights has no tokenizer" in (refusal := capsys.readouterr().err)
    assert "--calibration-ids" in refusal
    found = []
    for number in (1, 2):
        assert main([*words, "--json", "--calibration-ids", str(bare / f"{number}.txt")]) == 0
        found.append(json.loads(capsys.readouterr().out)["perplexity"])

    assert found[0] != found[1]


def test_machine_and_cost_take_calibration_ids(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", str(bare / "toy"), "--ids", str(bare / "1.txt"), "--scheme", "olive-4", "--tokens", "4"]
    for command in ("machine", "cost"):
        assert main([command, *words]) == 2
        assert "--calibration-ids" in capsys.readouterr().err
        assert main([command, *words, "--calibration-ids", str(bare / "2.txt")]) == 0
        capsys.readouterr()


def test_calibration_ids_outside_vocabulary_are_rejected(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / "3.txt").write_text("1 300", "utf-8")
    words = ["ppl", "--model", str(bare / "toy"), "--ids", str(bare / "1.txt"), "--win", "20"]

    assert main([*words, "--calibration-ids", str(bare / "3.txt")]) == 2
    assert "token id must be in [0, 300), got 300 at index 1" in capsys.readouterr().err


@pytest.mark.parametrize("command", [WORDS, ["generate-text", "--model", "tiny", "--tokens", "1"]])
def test_unused_calibration_text_is_noted(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.txt").write_text("Vanity was the beginning and the end of Sir Walter Elliot's character. " * 4)
    note = "refemu: note: scheme {} does not calibrate: the calibration text changed nothing\n"
    for scheme in ("fp16", "leankv-k8v4"):
        assert main([*command, "--scheme", scheme, "--calibration-text", str(tmp_path / "c.txt")]) == 0
        assert note.format(scheme) in capsys.readouterr().err
        assert main([*command, "--scheme", scheme]) == 0
        assert "does not calibrate" not in capsys.readouterr().err


def test_over_compares_window_by_window(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ppl", "--model", "tiny", "--windows", "4", "--win", "16", "--scheme", "leankv-k8v4", "--over", "fp16"]
    assert main([*words, "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["change"]
    assert main(words) == 0
    table = capsys.readouterr().out
    cut: dict[str, Any] = {"win": 16, "windows": 4, "prefill": 8}
    score, other = (models.perplexity("tiny", scheme=scheme, **cut) for scheme in ("leankv-k8v4", "fp16"))
    expected = models.compare(score, other)

    assert change == {
        "over": "fp16",
        "perplexity": other.perplexity,
        "percent": expected.percent,
        "error": expected.error,
        "least": expected.least,
        "most": expected.most,
        "significant": expected.significant,
    }
    assert f"{expected.percent:+.2f}" in table and f"{other.perplexity:.4f}" in table and "fp16" in table


def test_prompt_of_either_scheme_is_that_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl", "--model", "tiny", "--windows", "2", "--win", "8", "--over", "leankv-k8v4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert document["prefill"] == 4 and document["change"]["over"] == "leankv-k8v4"


def test_unknown_scheme_of_over_is_rejected_before_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--over", "fp61"]) == 2
    assert "did you mean 'fp16'" in capsys.readouterr().err


def test_one_window_has_no_error_of_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl", "--model", "tiny", "--windows", "1", "--win", "8", "--over", "fp16", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert document["change"] | {"perplexity": 0} == {
        "over": "fp16",
        "perplexity": 0,
        "percent": 0,
        "error": None,
        "least": 0,
        "most": 0,
        "significant": None,
    }
