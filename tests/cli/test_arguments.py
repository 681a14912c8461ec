"""Every command has a module and a help text."""

import argparse
import importlib

import pytest

from refemu.cli.arguments import parser
from tests.cli.help.parsers import parsers


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def test_the_commands_are_those_of_the_architecture() -> None:
    known = "list show generate check diff explain grade report export serve step view machine cost ppl study models"

    assert set(commands()) == {*known.split(), "new-unit", "schema", "completion"}


@pytest.mark.parametrize("name", commands())
def test_command_has_a_module_and_help(name: str) -> None:
    command = commands()[name]

    assert callable(importlib.import_module(f"refemu.cli.{command.get_default('module')}").run)
    assert command.description


@pytest.mark.parametrize("words", [["ppl", "--tok", "64"], ["--vers"], ["list", "--js"]])
def test_options_are_not_abbreviated(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An option that comes later may begin with the same letters."""
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
def test_a_misspelt_option_is_answered_by_its_command_with_the_nearest(
    line: str, command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(line.split())
    told = capsys.readouterr().err

    assert stop.value.code == 2
    assert told.startswith(f"usage: {command} ") and told.endswith(
        f"{command}: error: {message}\nTry: {command} --help\n"
    )


def test_every_sentence_of_help_begins_and_ends_as_one() -> None:
    shown = [(each.prog, action.help) for each in parsers(parser()) for action in each._actions if action.help]
    odd = {text for _, text in shown if text[0].islower() or text[-1] not in ".)"} - {"show this help message and exit"}
    assert odd == set()
