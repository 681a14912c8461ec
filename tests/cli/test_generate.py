"""`refemu generate`: sets, their table, and no files after an error."""

import json
from pathlib import Path

import pytest

from refemu.cli import main


def test_generate_writes_one_set_per_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "-o", str(tmp_path), "--unit", "flint_decoder", "--hex", "--bin", "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["sets"]

    assert made["name"] == "flint_decoder-flint4"
    assert {path.relative_to(tmp_path).parts[1] for path in tmp_path.rglob("*") if path.is_file()} == {
        "manifest.json",
        "cases.txt",
        "vectors.npz",
        "hex",
        "bin",
        "include",
    }


def test_table_counts_rows_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "-o", str(tmp_path), "--unit", "ovp_decoder", "--kinds", "exhaustive"]) == 0
    text = capsys.readouterr().out

    assert "ovp_decoder-int4" in text
    assert "4096" in text


def test_model_cases_of_the_built_in_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["generate", "-o", str(tmp_path), "--unit", "olive_mac", "--kinds", "model", "--tokens", "8", "--json"])
        == 0
    )
    (made,) = json.loads(capsys.readouterr().out)["sets"]
    manifest = json.loads((tmp_path / made["name"] / "manifest.json").read_text())

    assert made["kinds"]["model"] > 0
    assert manifest["source"]["model"] == "tiny"
    assert len(manifest["source"]["token_ids"]) == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--unit", "ovp_decodr"], "did you mean 'ovp_decoder'", id="unit"),
        pytest.param(
            ["--unit", "ovp_decoder", "--unit", "orizuru", "--kinds", "model", "--tokens", "2"],
            "\n  orizuru: no cases of kind model; scheme olive-4 does not tap it\n",
            id="unit without cases",
        ),
        pytest.param(["--kinds", "papr"], "paper", id="kind"),
        pytest.param(["--kinds", ""], "paper", id="no kind"),
        pytest.param(["--model", "tin"], "did you mean 'tiny'", id="model"),
        pytest.param(["--scheme", "olive-5"], "did you mean 'olive-", id="scheme"),
        pytest.param(["--unit", "orizuru", "--config", "n8"], "leave out --config", id="configuration"),
        pytest.param(["--layer", ""], "needs --tokens", id="no layer"),
        pytest.param(["--layer", "", "--tokens", "8"], "--layer takes blocks such as 0-3,7", id="empty layer"),
        pytest.param(["--text", "no-such-file.txt"], "no-such-file.txt", id="text"),
    ],
)
def test_invalid_options_write_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "-o", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_empty_scheduler_address_is_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "-o", str(tmp_path), "--unit", "fdgf", "--cases", "9", "--scheduler", ""]
    assert main(words) == 2
    assert "scheduler" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--cases", "9"],
        ["--workers", "2"],
        ["--scheduler", "tcp://h:1"],
        ["--layer", "0"],
        ["--tokens", "8"],
        ["--hex"],
        ["--json"],
    ],
)
def test_stdout_rejects_options_of_files(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--stdout", "--unit", "orizuru", *words]) == 2
    told = capsys.readouterr()
    assert f"--stdout writes the stimulus of one unit: leave out {words[0]}" in told.err and not told.out


def test_folder_with_other_files_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "flint_decoder-flint4"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")

    assert main(["generate", "-o", str(tmp_path), "--unit", "flint_decoder"]) == 2
    assert "notes.txt" in capsys.readouterr().err
    assert (mine / "notes.txt").read_text() == "mine"
