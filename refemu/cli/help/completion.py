"""Completion at the Tab key: units, schemes, formats, decisions, models, kinds of cases.

The library argcomplete starts the command with a variable of its own set, so the names include those of plug-ins.
Nothing else imports this module.
"""

import argparse
import importlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from refemu.arith.checks import Refused
from refemu.studies import NAMES

ADVICE = "completion needs the library argcomplete; run: pip install argcomplete"


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script of a shell; return 0."""
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """The completion script of a shell. Refused: the library is not installed."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise Refused(ADVICE) from None
    return shellcode(["refemu"], shell=shell)


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and exit; without the library, return."""
    try:
        import argcomplete
    except ImportError:
        return
    attach(parser)
    argcomplete.autocomplete(parser)


def attach(parser: argparse.ArgumentParser) -> None:
    """Give every option and argument its completer, chosen by its word in the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                attach(child)
        elif (names := _completer(parser.prog, action)) is not None:
            action.completer = names  # type: ignore[attr-defined]


def _completer(prog: str, action: argparse.Action) -> Callable[..., list[str]] | None:
    """The completer of an option; None for files, and for options with choices."""
    names = _OF_ARGUMENT.get((prog, action.dest)) or _OF_METAVAR.get(str(action.metavar))
    if names is None:
        return None

    def completer(prefix: str, parsed_args: Any, **_: object) -> list[str]:
        return list(names(prefix, parsed_args))

    return completer


def _units(prefix: str, _: Any) -> Iterator[str]:
    """Names of units; after a colon, their configurations."""
    from refemu import units

    name, colon, _config = prefix.partition(":")
    if not colon:
        yield from (*units.names(), *units.plugged())
    elif name in units.names() or name in units.plugged():
        yield from (f"{name}:{config}" for config in units.find(name).configs)


def _configurations(prefix: str, parsed: Any) -> Iterable[str]:
    """Configurations of the unit on the command line."""
    from refemu import units

    named = getattr(parsed, "unit", None) or getattr(parsed, "word", None)
    name = named[-1] if isinstance(named, list) else named
    return units.find(name).configs if name in (*units.names(), *units.plugged()) else ()


def _schemes(prefix: str, _: Any) -> Iterator[str]:
    """Names of schemes, also after the plus of a mix; after a colon, parameters."""
    from refemu.models import schemes

    before, plus, last = prefix.rpartition("+")
    name, colon, _value = last.partition(":")
    if colon and name in schemes.SCHEMES:
        from refemu.golden.pages import parameters

        taken = last.rpartition(",")[0] + "," if "," in last else f"{name}:"
        yield from (f"{before}{plus}{taken}{each}=" for each in parameters.of_scheme(name))
    else:
        yield from (f"{before}{plus}{each}" for each in (*schemes.SCHEMES, *schemes.plugged()))


def _formats(prefix: str, _: Any) -> list[str]:
    from refemu import formats
    from refemu.golden.pages import decisions

    others = [*formats.plugged(), *(each.id for each in decisions.plugged())]
    return [*formats.constants(), *formats.blocks(), "page", *decisions.every(), *others]


def _words(prefix: str, _: Any) -> list[str]:
    """All words of `refemu explain`; after a dot, parameters and ports."""
    from refemu.golden.pages import topics

    owner, dot, _member = prefix.partition(".")
    return [*topics.words(), *([f"{owner}.{each}" for each in topics.members(owner)] if dot else [])]


def _models(prefix: str, _: Any) -> Iterator[str]:
    """Names of models; the shell completes files."""
    from refemu.models import plugin_models
    from refemu.models.fetch import catalog

    yield from (*catalog.MODELS, *plugin_models.REGISTRY.names())


def _schemas(prefix: str, _: Any) -> list[str]:
    from refemu.cli import schema

    return schema.names()


def _listed(names: Callable[[], Iterable[str]]) -> Callable[[str, Any], Iterator[str]]:
    """Complete the last of several words with commas between them."""

    def listed(prefix: str, _: Any) -> Iterator[str]:
        before, comma, _last = prefix.rpartition(",")
        yield from (f"{before}{comma}{name}" for name in names())

    return listed


def _study(paper: str, option: str) -> Iterable[str]:
    """Parts, for "only", or figures of a study."""
    if option == "only":
        parts: Iterable[str] = importlib.import_module(f"refemu.studies.{paper}.experiments").PARTS
        return parts
    figures: Iterable[str] = importlib.import_module(f"refemu.studies.{paper}.figures").FIGURES
    return figures


def _kinds() -> Iterable[str]:
    from refemu.units.unit import KINDS

    return KINDS


def _classes() -> Iterable[str]:
    from refemu.golden.faults.fault import CLASSES

    return CLASSES


#: by metavar
_OF_METAVAR: dict[str, Callable[[str, Any], Iterable[str]]] = {
    "UNIT": _units,
    "CONFIG": _configurations,
    "SCHEME": _schemes,
    "FORMAT": _formats,
    "WORD": _words,
    "MODEL": _models,
    "KIND,...": _listed(_kinds),
    "CLASS,...": _listed(_classes),
}
#: by command and name of the argument
_OF_ARGUMENT: dict[tuple[str, str], Callable[[str, Any], Iterable[str]]] = {
    ("refemu models", "name"): _models,
    ("refemu schema", "form"): _schemas,
    **{
        (f"refemu study {paper}", option): _listed(partial(_study, paper, option))
        for paper in NAMES
        for option in ("only", "figure")
    },
}
