"""`refemu view` and `refemu step --html`: the page, its summary and errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.cli import main
from tests.golden.view import reader

SET = str(Path(__file__).resolve().parents[2] / "vectors" / "ovp_decoder-int4")


def test_view_writes_page_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "rows.html"

    assert main(["view", SET, "--html", str(page), "--rows", "10:20"]) == 0
    assert reader.checked(page.read_bytes())["rows"] == 10
    assert capsys.readouterr().out == f"{page}: rows 10 to 19 of 1032, {len(page.read_bytes()):,} bytes\n"


def test_differing_answers_exit_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "rows.html"
    csv = tmp_path / "dut.csv"
    assert main(["export", "csv", SET, "-o", str(csv)]) == 0
    assert main(["view", SET, "--html", str(page), "--answers", str(csv), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_differ"] == 0
    header, first, *rest = csv.read_text().splitlines()
    column = header.split(",").index("out.illegal")
    cells = first.split(",")
    cells[column] = str(1 - int(cells[column]))
    csv.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")

    assert main(["view", SET, "--html", str(page), "--answers", str(csv)]) == 1
    assert "1 of 1032 rows differ" in capsys.readouterr().out


def test_missing_outputs_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Answers with one of three outputs: the rows of that one count, and the command lists the others."""
    page, answers = tmp_path / "rows.html", tmp_path / "dut.npz"
    np.savez(answers, **{"out.exponent": golden.load(SET).arrays["out.exponent"]})
    command = ["view", SET, "--html", str(page), "--answers", str(answers)]

    assert main(command) == 0
    text = capsys.readouterr().out
    assert "not compared (missing from answers): out.base_int, out.illegal\n0 of 1032 rows differ" in text
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_compared"] == ["out.base_int", "out.illegal"]


def test_step_writes_page_of_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "events.html"

    assert main(["step", "orizuru", "--html", str(page), "--events", "3:8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    data = reader.checked(page.read_bytes())
    assert (document["first"], document["events"], document["total"]) == (3, 5, 23)
    assert (data["first"], data["events"], data["total"]) == (3, 5, 23)
    assert data["about"].startswith("A case of the paper: ")


def test_page_of_case_stops_at_condition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "events.html"
    stop = ["--break", "illegal == 1", "--input", "pair=0x85,0x88,0xd5", "--input", "bias=2"]

    assert main(["step", "ovp_decoder", "--html", str(page), *stop]) == 0
    assert capsys.readouterr().out.endswith("stopped at event 1: illegal == 1\n")
    assert reader.checked(page.read_bytes())["total"] == 2
    assert main(["step", "ovp_decoder", "--html", str(page), "--case", f"{SET}:8"]) == 0
    assert "of ovp_decoder-int4: " in reader.checked(page.read_bytes())["about"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["step", "orizzuru", "--html", "F"], "did you mean 'orizuru'?"),
        (
            ["step", "orizuru", "--html", "F", "--events", "20:40"],
            "--events must be in 0:23, got 20:40",
        ),
        (
            ["step", "orizuru", "--html", "F", "--events", "23:"],
            "--events must be in 0:23, got 23:",
        ),
        (["step", "orizuru", "--html", "F", "--events", "5:5"], "--events must be A:B with A below B, got '5:5'"),
        (["step", "orizuru", "--html", "F", "--events", "x"], "--events must be A:B with A below B, got 'x'"),
        (["step", "orizuru", "--events", "0:5"], "--events needs --html"),
        (["step", "orizuru", "--html", "F", "--full"], "leave out --full and --vcd"),
        (["view", SET, "--html", "F", "--rows", "2000:"], "--rows must be in 0:1032, got 2000:"),
        (["view", SET, "--html", "F", "--rows", "-3"], "--rows must be A:B, got '-3'"),
        (["view", "nowhere", "--html", "F"], "no such folder"),
        (["view", SET, "--html", "F", "--answers", "nowhere.npz"], "no such file"),
    ],
)
def test_invalid_options_write_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"

    assert main([str(page) if word == "F" else word for word in words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["step", "orizuru"], ["view", SET]])
def test_unwritable_file_is_unchanged(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--html", str(tmp_path)]) == 2
    assert "must be a file, got a folder; nothing was written" in capsys.readouterr().err
    assert main([*words, "--html", str(tmp_path / "absent" / "page.html")]) == 2
    assert str(tmp_path / "absent") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
