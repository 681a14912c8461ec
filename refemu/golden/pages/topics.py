"""Topics that words name: decisions, units, schemes, formats, their parameters, ports and fields, terms.

refemu's own topics precede those of plug-ins.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from refemu import formats, plugins, units
from refemu.arith.checks import Refused
from refemu.golden.pages import decisions, glossary, parameters, state
from refemu.models import schemes
from refemu.models.schemes import SCHEMES, scheme_file

Kind = Literal["decision", "unit", "scheme", "format", "parameter", "port", "field", "term"]

SHOWN = 3  #: members of units that an error suggests


@dataclass(frozen=True)
class Topic:
    """A topic: its kind and name."""

    kind: Kind
    of: str  #: "D-olive-19", "orizuru", "harmonia-kv4", "OVP_INT4", "victim"
    member: str = ""  #: name of a parameter, port or field


def find(word: str) -> Topic:
    """Find the topic of a word, in upper or lower case, with `-` for `_` in names of formats.

    Parameters
    ----------
    word : str
        "D-olive-19", "orizuru", "orizuru.x", "orizuru.cycles", "harmonia-kv4.low", "OVP_INT4", "victim".

    Returns
    -------
    Topic
        Kind and name.

    Raises
    ------
    Refused
        An unknown word; the error shows the nearest known one.
    """
    known = _named(word)
    if known is not None:
        return known
    of, dot, member = word.rpartition(".")
    if not scheme_file.is_named(of):
        of, dot, member = word.partition(".")
    owner = _named(of) if dot else None
    if owner is not None:
        members = _members(owner)
        if member in members:
            return Topic(members[member], owner.of, member)
        error = _unknown(word, member, {each: f"{owner.of}.{each}" for each in members} or {member: owner.of})
        raise error if not members else Refused(f"{error}; {owner.of} has {', '.join(members)}")
    raise _unknown(word, word, {each: each for each in words()})


def is_known(word: str) -> bool:
    """Whether a word, or its part before the last point, names a topic."""
    return _named(word) is not None or _named(word.rpartition(".")[0]) is not None


def members(owner: str) -> list[str]:
    """Names of the parameters, ports and fields of a unit, a scheme or a format; none for any other word."""
    known = _named(owner)
    return list(_members(known)) if known else []


def words() -> list[str]:
    """Everything that has a name, without parameters, ports and fields."""
    terms = [word for term in glossary.every().values() for word in (term.name, *term.also)]
    native = [*units.names(), *SCHEMES, *formats.constants(), *formats.blocks(), *terms, *decisions.every()]
    foreign = [*units.plugged(), *schemes.plugged(), *formats.plugged(), *(each.id for each in decisions.plugged())]
    return native + foreign


def _named(word: str) -> Topic | None:
    if word in decisions.every():
        return Topic("decision", word)
    if word in units.names():
        return Topic("unit", word)
    if word in list(SCHEMES) or scheme_file.is_named(word):
        return Topic("scheme", word)
    name = word.upper().replace("-", "_")
    if name in formats.constants() or name in formats.blocks():
        return Topic("format", name)
    term = glossary.by_word().get(word.lower())
    return Topic("term", term.name) if term else _plugged(word)


def _plugged(word: str) -> Topic | None:
    """Topics of plug-ins, also by "distribution/name"."""
    if decisions.is_known(word):
        return Topic("decision", word)
    head, slash, bare = word.rpartition("/")
    constant = f"{head}{slash}{bare.upper().replace('-', '_')}"
    kinds: tuple[tuple[Kind, plugins.Kind, Sequence[str], str], ...] = (
        ("unit", "unit", units.plugged(), word),
        ("scheme", "scheme", schemes.plugged(), word),
        ("format", "format", formats.plugged(), constant),
    )
    for kind, of, short, name in kinds:
        if name in short or any(name in (plug.name, plug.key) for plug in plugins.plugs(of)):
            return Topic(kind, name)
    return None


def _members(owner: Topic) -> dict[str, Kind]:
    """Members of a unit, a scheme or a format; a parameter precedes a port of its name, both precede a field."""
    if owner.kind == "unit":
        ports: dict[str, Kind] = dict.fromkeys(parameters.ports(owner.of), "port")
        known: dict[str, Kind] = {**ports, **dict.fromkeys(parameters.of_unit(owner.of), "parameter")}
        return {**known, **{name: "field" for name in state.of_unit(owner.of) if name not in known}}
    if owner.kind in ("scheme", "format"):
        table = parameters.of_scheme if owner.kind == "scheme" else parameters.of_format
        return dict.fromkeys(table(owner.of), "parameter")
    return {}


def _unknown(word: str, wrong: str, known: Mapping[str, str]) -> Refused:
    """An error with the word whose key is nearest to `wrong`."""
    by_lower = {each.lower(): meant for each, meant in known.items()}
    begun = [each for each in by_lower if len(wrong) > 2 and each.startswith(wrong.lower())]
    near = begun or difflib.get_close_matches(wrong.lower(), by_lower, n=1, cutoff=0.7)
    meant = [by_lower[near[0]]] if near else _in_units(word) if wrong == word else []
    more = f" or {len(meant) - SHOWN} more" if len(meant) > SHOWN else ""
    hint = f"did you mean {', '.join(map(repr, meant[:SHOWN]))}{more}? " if meant else ""
    if decisions.ID.fullmatch(word):
        return Refused(f"unknown decision {word!r}; {hint}`refemu explain UNIT` lists those of a unit")
    return Refused(
        f"explain: no entry {word[:60]!r}; {hint}`refemu list` shows units, formats, schemes and decisions, "
        "docs/glossary.md the terms"
    )


def _in_units(name: str) -> list[str]:
    """Members of refemu's units with a name: "orizuru.comparisons_live". Imports every unit, which takes a second."""
    return [f"{unit}.{name}" for unit in units.names() if name in _members(Topic("unit", unit))]


def parameter(topic: Topic) -> parameters.Parameter:
    """The parameter that a topic names."""
    owner = _named(topic.of)
    tables = {"unit": parameters.of_unit, "scheme": parameters.of_scheme, "format": parameters.of_format}
    return tables[owner.kind if owner else ""](topic.of)[topic.member]


def owner_key(topic: Topic) -> str:
    """The owner of a topic's member, with its distribution: "orizuru", "refemu-mx/mxfp4"."""
    short: dict[plugins.Kind, Collection[str]] = {
        "unit": units.plugged(),
        "scheme": schemes.plugged(),
        "format": formats.plugged(),
    }
    for of, names in short.items():
        if topic.of in names:
            return next((plug.key for plug in plugins.plugs(of) if topic.of == plug.name), topic.of)
    return topic.of


def port(topic: Topic) -> parameters.PortOf | None:
    """The port of a topic, or the port with the name of the topic's parameter; None if there is none."""
    owner = _named(topic.of)
    return parameters.ports(topic.of).get(topic.member) if owner and owner.kind == "unit" else None
