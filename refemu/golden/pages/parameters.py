"""Parameters of schemes, units and formats, and ports of units: meaning, values, default, decisions.

All of it comes from the code: values and defaults from classes, meanings from comments, docstrings and ports.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Union

from refemu import formats, units
from refemu.formats import config_text
from refemu.golden.pages.named_caches import following
from refemu.models.schemes import SCHEMES, scheme_file, scheme_text
from refemu.models.schemes.scheme import Scheme
from refemu.units import comments
from refemu.units.docstrings import section
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

ID = re.compile(r"D-[a-z]+-\d+")
OPEN = {int: "an integer", float: "a number", str: "a word"}  #: values that cannot be listed
SEVERAL = {"an integer": "integers", "a number": "numbers", "a word": "words"}  #: plurals, for tuples


@dataclass(frozen=True)
class Parameter:
    """A parameter of a scheme, a unit or a format."""

    of: str  #: "harmonia-kv4", "orizuru", "OVP_INT4"
    name: str
    choices: tuple[str, ...]  #: values on a command line
    open: tuple[str, ...]  #: other valid values: "an integer", "a word", "Ovp"
    default: str  #: default of this scheme or format; "" = required
    meaning: str
    decisions: tuple[str, ...]  #: decisions that the meaning names
    ready: Mapping[str, str]  #: for a unit: values in the ready configurations that set it

    @property
    def values(self) -> str:
        """Valid values as text, `none` last."""
        return ", ".join(sorted((*self.choices, *self.open), key="none".__eq__))


@dataclass(frozen=True)
class PortOf:
    """A port or register of a unit, from its first configuration that has it."""

    of: str
    config: str
    direction: Literal["input", "output", "register"]
    port: Port


def scheme(name: str) -> Scheme:
    """A registered scheme, or that of a file."""
    return scheme_text.parse(name) if scheme_file.is_named(name) else SCHEMES[name]


@following(scheme)
def of_scheme(name: str, config: Scheme) -> dict[str, Parameter]:
    """Parameters of a registered scheme by name."""
    return _of_object(name, config)


@following(formats.find)
def of_format(name: str, fmt: Any) -> dict[str, Parameter]:
    """Parameters of a ready format by name; none for a plug-in's format that is not a dataclass."""
    return _of_object(name, fmt) if dataclasses.is_dataclass(fmt) else {}


@following(units.find)
def of_unit(name: str, unit: AnyUnit) -> dict[str, Parameter]:
    """Parameters of a unit's constructor by name."""
    hints = typing.get_type_hints(unit.unit_class.__init__)
    meanings = _entries(section(unit.unit_class.__init__.__doc__, "Parameters"))
    table = {}
    for key, each in inspect.signature(unit.unit_class).parameters.items():
        default = "" if each.default is inspect.Parameter.empty else _written(each.default)
        ready = {config: _written(values[key]) for config, values in unit.configs.items() if key in values}
        table[key] = _parameter(name, key, hints[key], default, meanings.get(key, ""), ready)
    return table


@following(units.find)
def ports(name: str, unit: AnyUnit) -> dict[str, PortOf]:
    """Ports and registers of a unit by name, over all its ready configurations."""
    table: dict[str, PortOf] = {}
    for config, values in unit.configs.items():
        sides = unit.ports(values)
        for direction, side in (("input", sides.inputs), ("output", sides.outputs), ("register", sides.state)):
            for port in side:
                table.setdefault(port.name, PortOf(name, config, direction, port))  # type: ignore[arg-type]
    return table


def _of_object(of: str, ready: Any) -> dict[str, Parameter]:
    kind: type = type(ready)
    hints, meanings = typing.get_type_hints(kind), comments.of_class(kind)
    return {
        each.name: _parameter(
            of, each.name, hints[each.name], _written(getattr(ready, each.name)), meanings.get(each.name, ""), {}
        )
        for each in dataclasses.fields(ready)
        if not each.name.startswith("_")
    }


def _parameter(of: str, name: str, kind: Any, default: str, meaning: str, ready: Mapping[str, str]) -> Parameter:
    choices: list[str] = []
    other: list[str] = []
    for word, listed in _values(kind):
        (choices if listed else other).append(word)
    ids = tuple(dict.fromkeys(ID.findall(meaning)))
    return Parameter(of, name, tuple(dict.fromkeys(choices)), tuple(dict.fromkeys(other)), default, meaning, ids, ready)


def _values(kind: Any) -> Iterator[tuple[str, bool]]:
    """Values that an annotation allows: a word, and whether it is the value itself."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        yield from ((_written(value), True) for value in arguments)
    elif origin in (Union, types.UnionType):
        yield from (each for part in arguments for each in _values(part))
    elif origin is tuple:
        members = list(dict.fromkeys(word for part in arguments if part is not Ellipsis for word, _ in _values(part)))
        yield f"a tuple of {', '.join(SEVERAL.get(word, word) for word in members)}", False
    elif kind is type(None):
        yield "none", True
    elif kind is bool:
        yield from (("true", True), ("false", True))
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield from ((_written(value), True) for value in kind)
    else:
        yield OPEN.get(kind, getattr(kind, "__name__", str(kind))), False


def _written(value: Any) -> str:
    """A value for a command line; its name if it has no text."""
    try:
        return config_text.write(value)
    except ValueError:
        return getattr(value, "__name__", repr(value))


def _entries(body: str) -> dict[str, str]:
    """Descriptions by name of a numpydoc section."""
    table: dict[str, list[str]] = {}
    names: list[str] = []
    for line in body.splitlines():
        if line[:1].strip():
            names = [name.strip(" *") for name in line.partition(" : ")[0].split(",")]
            table.update({name: [] for name in names})
        else:
            for name in names:
                table[name].append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in table.items()}
