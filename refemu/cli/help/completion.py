"""Completion at the Tab key: names of units, schemes, formats, decisions, models, kinds of cases.

The library argcomplete asks the command itself for them (a variable of its shell function says so), so names of
plug-ins are among them, and nothing of this is imported for anything else.
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
    """Print the commands of a shell; returns 0."""
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """The commands of a shell that make it complete `refemu`. Refused: the library is not installed."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise Refused(ADVICE) from None
    return shellcode(["refemu"], shell=shell)


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks, and end the process; without the library there is no answer."""
    try:
        import argcomplete
    except ImportError:
        return
    attach(parser)
    argcomplete.autocomplete(parser)


def attach(parser: argparse.ArgumentParser) -> None:
    """Tell every option and argument what it takes, by the word that stands for it in the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                attach(child)
        elif (names := _completer(parser.prog, action)) is not None:
            action.completer = names  # type: ignore[attr-defined]


def _completer(prog: str, action: argparse.Action) -> Callable[..., list[str]] | None:
    """A function of the word that is typed; None for files and for what has choices."""
    names = _OF_ARGUMENT.get((prog, action.dest)) or _OF_METAVAR.get(str(action.metavar))
    if names is None:
        return None

    def completer(prefix: str, parsed_args: Any, **_: object) -> list[str]:
        return list(names(prefix, parsed_args))

    return completer


def _units(prefix: str, _: Any) -> Iterator[str]:
    """Names of units, and behind a colon ready configurations."""
    from refemu import units

    name, colon, _config = prefix.partition(":")
    if not colon:
        yield from (*units.names(), *units.plugged())
    elif name in units.names() or name in units.plugged():
        yield from (f"{name}:{config}" for config in units.find(name).configs)


def _configurations(prefix: str, parsed: Any) -> Iterable[str]:
    """Ready configurations of the unit that was named."""
    from refemu import units

    named = getattr(parsed, "unit", None) or getattr(parsed, "word", None)
    name = named[-1] if isinstance(named, list) else named
    return units.find(name).configs if name in (*units.names(), *units.plugged()) else ()


def _schemes(prefix: str, _: Any) -> Iterator[str]:
    """Names of schemes; behind a plus the second half of a mix, behind a colon parameters."""
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
    """Everything that has a name, and behind a dot the parameters and ports of its owner."""
    from refemu.golden.pages import topics

    owner, dot, _member = prefix.partition(".")
    return [*topics.words(), *([f"{owner}.{each}" for each in topics.members(owner)] if dot else [])]


def _models(prefix: str, _: Any) -> Iterator[str]:
    """Names of models; files are completed by the shell."""
    from refemu.models import plugin_models
    from refemu.models.fetch import catalog

    yield from (*catalog.MODELS, *plugin_models.REGISTRY.names())


def _schemas(prefix: str, _: Any) -> list[str]:
    from refemu.cli import schema

    return schema.names()


def _listed(names: Callable[[], Iterable[str]]) -> Callable[[str, Any], Iterator[str]]:
    """Words between commas: the last of them is completed."""

    def listed(prefix: str, _: Any) -> Iterator[str]:
        before, comma, _last = prefix.rpartition(",")
        yield from (f"{before}{comma}{name}" for name in names())

    return listed


def _study(paper: str, option: str) -> Iterable[str]:
    """Parts, for "only", or figures of the study of a paper."""
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
