"""Tables, JSON, sizes, and silence in a pipe."""

import json

import pytest

from refemu.cli import output


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (98_362_432, "98.4 MB"), (2_500_000_000, "2.5 GB")],
)
def test_size(count: int, text: str) -> None:
    assert output.size(count) == text


def test_json_is_ascii_and_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"b": "é", "a": 1})

    assert json.loads(capsys.readouterr().out) == {"a": 1, "b": "é"}


def test_table_in_a_pipe_has_no_colour_and_keeps_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("a table", ["name", "count"], [["[bold]", 3]], ["count"])

    text = capsys.readouterr().out
    assert "[bold]" in text
    assert "\x1b" not in text


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as bar:
        assert bar is None

    assert capsys.readouterr().err == ""
