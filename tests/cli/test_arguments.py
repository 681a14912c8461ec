"""Every command has a module and a help text."""

import argparse
import importlib

import pytest

from refemu.cli.arguments import parser


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def test_the_commands_are_those_of_the_architecture() -> None:
    known = (
        "list show generate check diff explain grade report export serve step view machine cost ppl study models schema"
    )

    assert set(commands()) == {*known.split(), "new-unit"}


@pytest.mark.parametrize("name", commands())
def test_command_has_a_module_and_help(name: str) -> None:
    command = commands()[name]

    assert callable(importlib.import_module(f"refemu.cli.{name.replace('-', '_')}").run)
    assert command.description
