"""Commands, options and help texts."""

import argparse
import importlib
from pathlib import Path

import pytest

from refemu.cli.arguments import GROUPS, parser
from tests.cli.help.parsers import parsers


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def test_commands_are_the_known_ones() -> None:
    known = (
        "list show generate check diff explain grade report export serve prove step view machine cost ppl study models"
        " generate-text"
    )

    assert set(commands()) == {*known.split(), "simulate", "new-unit", "schema", "completion"}


@pytest.mark.parametrize("name", commands())
def test_command_has_a_module_and_help(name: str) -> None:
    command = commands()[name]

    assert callable(importlib.import_module(f"refemu.cli.{command.get_default('module')}").run)
    assert command.description


@pytest.mark.parametrize("words", [["ppl", "--tok", "64"], ["--vers"], ["list", "--js"]])
def test_options_are_not_abbreviated(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A new option could begin with the same letters."""
    with pytest.raises(SystemExit):
        parser().parse_args(words)
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "command", "message"),
    [
        ("ppl --modle tiny", "refemu ppl", "unrecognized arguments: --modle tiny; did you mean '--model'?"),
        ("ppl --modle=tiny", "refemu ppl", "unrecognized arguments: --modle=tiny; did you mean '--model'?"),
        ("study olive --onyl x", "refemu study olive", "unrecognized arguments: --onyl x; did you mean '--only'?"),
        ("list units extra", "refemu list", "unrecognized arguments: extra"),
        ("list --zzzzz", "refemu list", "unrecognized arguments: --zzzzz"),
        ("--jsno list", "refemu", "unrecognized arguments: --jsno; did you mean '--json'?"),
    ],
)
def test_misspelt_option_suggests_the_nearest_one(
    line: str, command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(line.split())
    told = capsys.readouterr().err

    assert stop.value.code == 2
    assert told == f"{command.replace(' ', ': ', 1)}: {message}\nTry: {command} --help\n"


def test_help_groups_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(commands())
    text = parser().format_help()
    assert [line[:-1] for line in text.splitlines() if line[:-1] in GROUPS] == list(GROUPS)
    assert all(text.count(f"\n  {name} ") == 1 for name in commands())


def test_command_line_page_has_the_help_groups() -> None:
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    table = page.split("|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:3]] for line in table]
    want = [[title * (name == names[0]), name] for title, names in GROUPS.items() for name in names]
    assert rows == want


def test_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [(each.prog, line) for each in parsers(parser()) for line in each.format_help().splitlines()]
    assert [pair for pair in lines if len(pair[1]) >= 80] == []


def test_help_breaks_lines_at_spaces_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line for each in parsers(parser()) for line in each.format_help().splitlines()]
    assert [line for line in lines if line.endswith("-") and not line.endswith(" -")] == []


def test_help_texts_are_sentences() -> None:
    shown = [(each.prog, action.help) for each in parsers(parser()) for action in each._actions if action.help]
    unwritten = {"show this help message and exit", argparse.SUPPRESS}
    odd = {text for _, text in shown if text[0].islower() or text[-1] not in ".)"} - unwritten
    assert odd == set()
