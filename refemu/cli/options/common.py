"""The parser and makers of commands, options that several commands take, and types of arguments."""

import argparse
import difflib
import os
import shutil
import sys
from functools import cache
from typing import Any, TypeAlias

UNIT = "A unit of `refemu list units`: NAME, NAME:CONFIG or NAME:parameter=value,... such as orizuru:n=4096,k=21."
SCHEME = "A scheme of `refemu list schemes`: NAME, NAME:parameter=value,... or a mix, LINEAR+ATTENTION"
CONFIG = "Configuration: its name, or parameter=value,... (default: the first)."

REAL = "smollm2-135m"  #: the model whose perplexity is measured by default, once it is fetched
MODEL = "Built-in or fetched model (`refemu models`), or the path of a .gguf or .safetensors file or a model folder"
IDS = "File of token ids instead of a text: decimal numbers between white space, or an .npy array of integers."


@cache
def _width(columns: str | None) -> int:
    """Columns of help; asked of the terminal once."""
    return shutil.get_terminal_size().columns - 2


class Parser(argparse.ArgumentParser):
    """Suggests the nearest choice or option, takes no abbreviated option, and ends its help with examples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=_width(os.environ.get("COLUMNS")))  # once for each argument

    def format_help(self) -> str:
        from refemu.cli.help import examples  # here: only help needs them

        return super().format_help() + examples.text(self.prog)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Unlike argparse's own, fail where the message cannot be written."""
        stream = file or sys.stderr
        if stream is not None:  # None: the process has no such stream
            stream.write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = difflib.get_close_matches(str(value), [str(choice) for choice in action.choices or ()], n=1)
            error.message += f"; did you mean {near[0]!r}?" if near else ""
            raise

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is left over here, so that the command answers, not `refemu`."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            near = difflib.get_close_matches(left[0].partition("=")[0], self._option_string_actions, n=1)
            self.error(f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return parsed, left

    def error(self, message: str) -> None:  # type: ignore[override]
        super().error(f"{message}\nTry: {self.prog} --help")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  #: where a command is added


def new_command(commands: Commands, name: str, help: str, json: bool = True) -> Parser:
    """A command. json: it takes --json, and `refemu schema` knows what it prints."""
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(module=name.replace("-", "_"), prints_json=json)
    if json:
        add_json(command)
    return command


def new_kind(names: Commands, name: str, help: str, json: bool = True) -> Parser:
    """A kind of a command: a study, a form of export. json: it takes --json."""
    command = names.add_parser(name, help=help, description=help)
    if json:
        add_json(command)
    return command


def add_json(command: Parser) -> None:
    """The option as it may stand before a command, behind it, and behind its kind."""
    command.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="Print JSON instead of tables; `refemu schema` describes it.",
    )


def add_count(command: Parser, name: str, help: str, default: int | None = None, low: int = 1) -> None:
    """An option that is an integer of at least `low`, 0 or 1."""
    command.add_argument(name, type=positive if low else natural, default=default, metavar="N", help=help)


def add_word(command: Parser, name: str, metavar: str, help: str, default: str | None = None) -> None:
    """An option that is a word."""
    command.add_argument(name, metavar=metavar, help=help, default=default)


def add_model(command: Parser, default: str | None, shown: str = "", more: str = "") -> None:
    """The model. shown: in the place of the default; more: a sentence behind that."""
    add_word(command, "--model", "MODEL", f"{MODEL} (default: {shown or default}).{more}", default)


def add_model_and_text(command: Parser) -> None:
    """A model, and what it reads."""
    add_model(command, REAL)
    add_word(command, "--text", "FILE", "UTF-8 text (default: a text that refemu ships).")
    add_word(command, "--ids", "FILE", IDS)


def add_calibration_ids(command: Parser) -> None:
    """What a scheme that calibrates reads."""
    help = "File of token ids, as --ids takes, for schemes that calibrate (default: another text that refemu ships)."
    add_word(command, "--calibration-ids", "FILE", help)


def add_threads(command: Parser) -> None:
    """How many threads compute."""
    add_count(command, "--threads", "Threads to use (default: $REFEMU_THREADS, else 1). Results do not depend on it.")


def add_waive(command: Parser, what: str) -> None:
    """What a comparison leaves out. what: the start of a sentence on it."""
    command.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{what}: the rows with this flag, the bits that another answer to this decision changes, or the rows of "
        "this case or block of cases. May be repeated.",
    )
    command.add_argument(
        "--force", action="store_true", help="Let a flag of --waive leave out more than a tenth of the rows."
    )


def path(word: str) -> str:
    """A path, which is not empty."""
    if not word:
        raise argparse.ArgumentTypeError("must be a path, got an empty word; is a shell variable unset?")
    return word


def natural(word: str) -> int:
    """An integer from 0 on."""
    return _integer(word, 0)


def positive(word: str) -> int:
    """An integer from 1 on."""
    return _integer(word, 1)


def _integer(word: str, low: int) -> int:
    from refemu.arith.reader_errors import integer  # here: help needs no NumPy

    try:
        value = integer(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {word[:60]!r}") from None
    if value < low:
        raise argparse.ArgumentTypeError(f"must be at least {low}, got {value}")
    return value
