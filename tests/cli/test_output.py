"""Tables, JSON, sizes and escapes."""

import json
import subprocess
import sys

import pytest

from refemu.cli import output


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (98_362_432, "98.4 MB"), (2_500_000_000, "2.5 GB")],
)
def test_size_has_a_unit(count: int, text: str) -> None:
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


def test_piped_table_has_brackets_and_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("a table", ["name", "count"], [["[bold]", 3]], ["count"])

    text = capsys.readouterr().out
    assert "[bold]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("environment", "bold"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_table_fits_the_terminal(
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


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "a\rb", "\x9b5m", "\x00", "\u202eabc"])
def test_control_characters_are_escaped(text: str) -> None:
    code = "import sys; from refemu.cli.output import escape_unprintable as e; e(); print(sys.argv[1] + chr(9) + '.')"
    code = code.replace("sys.argv[1]", repr(text)) + f"; print({text!r}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    escaped = "".join(each if each.isprintable() else ascii(each)[1:-1].replace(r"\r", r"\x0d") for each in text)

    assert (done.stdout.decode(), done.stderr.decode()) == (f"{escaped}\t.\n", f"{escaped}\n")


def test_bold_is_not_escaped() -> None:
    assert output._CONTROL.sub(output._escaped, "\x1b[1mtitle\x1b[0m\x1b[31m") == "\x1b[1mtitle\x1b[0m\\x1b[31m"
