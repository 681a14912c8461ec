"""The parser, functions that add commands and options, and types of arguments."""

import argparse
import difflib
import os
import shutil
import sys
from functools import cache
from typing import Any, TypeAlias

UNIT = "A unit of `refemu list units`: NAME, NAME:CONFIG or NAME:parameter=value,... such as orizuru:n=4096,k=21."
SCHEME = (
    "A scheme of `refemu list schemes`: NAME, NAME:parameter=value,... or a mix, LINEAR+ATTENTION; "
    "or your own, FILE.py:NAME"
)
CONFIG = "Configuration: a name, or parameter=value,... (default: the first)."

REAL = "smollm2-135m"  #: default model of perplexities; must be fetched
MODEL = "A model of `refemu models`, or the path of a .gguf file, a .safetensors file or a model folder"
TEXT = "UTF-8 text to read: a file, a folder of files, or - for standard input"
IDS = "Token ids to read instead of a text: decimal numbers between white space, or an .npy array of integers."


@cache
def _width(columns: str | None) -> int:
    """Columns of help, from the terminal or COLUMNS."""
    return shutil.get_terminal_size().columns - 2


class _Formatter(argparse.HelpFormatter):
    """Text that is wrapped at spaces only, so that names of files and options can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        import textwrap  # here: only help needs it

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in self._split_lines(text, width - len(indent)))


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest choice or option, accepts no abbreviations and ends its help with examples."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})
        self._positionals.title = "arguments"

    def _get_formatter(self) -> argparse.HelpFormatter:
        return _Formatter(self.prog, width=_width(os.environ.get("COLUMNS")))

    def format_help(self) -> str:
        from refemu.cli.help import examples  # here: only help needs them

        return super().format_help() + examples.text(self.prog)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message; unlike argparse, fail if it cannot be written."""
        stream = file or sys.stderr
        if stream is not None:  # None: the process has no such stream
            stream.write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            known = [str(choice) for choice in action.choices or ()]
            near = difflib.get_close_matches(str(value), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if not action.option_strings:
                what = f"unknown {str(action.metavar or action.dest).lower()} {str(value)!r}"
                raise argparse.ArgumentError(None, f"{what}{hint or '.'} Known: {', '.join(known)}") from None
            error.message += hint
            raise

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report unknown arguments here, so that the message names the command."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            near = difflib.get_close_matches(left[0].partition("=")[0], self._option_string_actions, n=1)
            self.error(f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return parsed, left

    def error(self, message: str) -> None:  # type: ignore[override]
        """Print a message as of every other error, and where usage is; exit code 2."""
        self.exit(2, f"{': '.join(self.prog.split(' ', 1))}: {message}\nTry: {self.prog} --help\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  #: where a command is added


def new_command(commands: Commands, name: str, help: str, json: bool = True) -> Parser:
    """Add a command. json: whether it takes --json."""
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(module=name.replace("-", "_"), prints_json=json)
    if json:
        add_json(command)
    return command


def new_kind(names: Commands, name: str, help: str, json: bool = True) -> Parser:
    """Add a kind of a command: a study, a form of export. json: whether it takes --json."""
    command = names.add_parser(name, help=help, description=help)
    if json:
        add_json(command)
    return command


def add_json(command: Parser) -> None:
    """Add --json; it is valid before a command, after it, and after its kind."""
    command.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="Print JSON instead of tables; `refemu schema` describes it.",
    )


def add_count(command: Parser, name: str, help: str, default: int | None = None, low: int = 1) -> None:
    """Add an option whose value is an integer of at least `low`, 0 or 1."""
    command.add_argument(name, type=positive if low else natural, default=default, metavar="N", help=help)


def add_real(command: Parser, name: str, metavar: str, help: str) -> None:
    """Add an option whose value is a number."""
    command.add_argument(name, type=real, metavar=metavar, help=help)


def add_word(command: Parser, name: str, metavar: str, help: str, default: str | None = None) -> None:
    """Add an option whose value is a word."""
    command.add_argument(name, metavar=metavar, help=help, default=default)


def add_model(command: Parser, default: str | None, shown: str = "", more: str = "") -> None:
    """Add --model. shown: what help gives as the default; more: a sentence after it."""
    add_word(command, "--model", "MODEL", f"{MODEL} (default: {shown or default}).{more}", default)


def add_model_and_text(command: Parser) -> None:
    """Add a model and the text or token ids that it reads."""
    add_model(command, REAL)
    add_text(command)


def add_text(command: Parser) -> None:
    """Add the text or token ids that a model reads."""
    add_word(command, "--text", "FILE", f"{TEXT} (default: a novel that comes with refemu).")
    add_word(command, "--ids", "FILE", IDS)


def add_calibration(command: Parser) -> None:
    """Add the text or token ids on which a scheme calibrates."""
    help = "Text on which the scheme calibrates, in the form of --text (default: a second text of refemu)."
    add_word(command, "--calibration-text", "FILE", help)
    help = "Token ids to calibrate on instead, in the form of --ids."
    add_word(command, "--calibration-ids", "FILE", help)


def add_threads(command: Parser) -> None:
    """Add --threads."""
    add_count(command, "--threads", "Number of threads (default: $REFEMU_THREADS, else 1). It changes no result.")


def add_waive(command: Parser, what: str) -> None:
    """Add the waivers of a comparison. what: the start of the help sentence."""
    command.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{what} what NAME names: the rows with a flag, the bits that depend on a decision, or the rows of a case "
        "or group of cases. May be repeated.",
    )
    command.add_argument(
        "--force", action="store_true", help="Allow a flag in --waive to exclude more than a tenth of the rows."
    )


def path(word: str) -> str:
    """Check that a path is not empty, and return it."""
    if not word:
        raise argparse.ArgumentTypeError("must be a path, got an empty string; is a variable of the shell unset?")
    return word


def natural(word: str) -> int:
    """Parse an integer of at least 0."""
    return _integer(word, 0)


def positive(word: str) -> int:
    """Parse an integer of at least 1."""
    return _integer(word, 1)


class Typed(float):
    """A number of the command line; messages print what was typed."""

    word: str

    def __new__(cls, word: str) -> "Typed":
        """Parse a word."""
        typed = super().__new__(cls, word)
        typed.word = str(word)[:60]  # a copy is made of a float
        return typed

    def __repr__(self) -> str:
        return self.word


def real(word: str) -> float:
    """Parse a finite number of at least 0."""
    try:
        value = float(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {word[:60]!r}") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a finite number of at least 0, got {word[:60]}")
    return Typed(word)


def _integer(word: str, low: int) -> int:
    from refemu.arith.reader_errors import integer  # here: help needs no NumPy

    try:
        value = integer(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {word[:60]!r}") from None
    if value < low:
        raise argparse.ArgumentTypeError(f"must be at least {low}, got {word[:60]}")
    return value
