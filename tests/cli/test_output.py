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


def test_json_is_ascii_sorted_and_names_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json("new-unit", {"unit": "é", "folder": "f", "files": []})
    printed = capsys.readouterr().out

    assert printed.isascii()
    assert list(json.loads(printed).items()) == [
        ("files", []),
        ("folder", "f"),
        ("schema", "refemu.new-unit/1"),
        ("unit", "é"),
    ]


def test_table_in_a_pipe_has_no_colour_and_keeps_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("a table", ["name", "count"], [["[bold]", 3]], ["count"])

    text = capsys.readouterr().out
    assert "[bold]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("environment", "bold"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_table_on_a_terminal_is_as_wide_as_it(
    environment: dict[str, str], bold: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    for name, value in {"COLUMNS": "40", **environment}.items():
        monkeypatch.setenv(name, value)
    output.print_table("a table", ["name", "what"], [["one", "many words " * 9]])
    text = capsys.readouterr().out
    assert ("\x1b[1ma table\x1b[0m" in text) == bold
    assert max(len(line) for line in text.splitlines() if "\x1b" not in line) <= 40
    assert text.endswith("words\n\n")
