"""Parameters as text, `n=4096,k=21`: one grammar for units and schemes.

    parameters  name=value,...
    value       4  0.5  true  false  none  word  tuple  object
    tuple       4+4 for two members, 4+ for one, none for no member; a tuple in a tuple is in brackets: [0+1]+[2+3]
    object      BASE[field=value;...], a ready constant or a class with some fields changed: OVP_INT4[left=high]

`read(write(value), kind)` is `value`. No public type of the papers' numbers is needed to read a command line.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Literal, Union

import numpy as np

from refemu import formats
from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import integer

WORDS = {None: "none", True: "true", False: "false"}
_PAIRS = {"[": 1, "]": -1}


def assignments(text: str, thing: str, separator: str = ",") -> dict[str, str]:
    """Split `name=value,...` at separators outside brackets.

    thing: for error messages. Raises Refused for a missing `=`, a repeated name, brackets that do not match.
    """
    table: dict[str, str] = {}
    for part in _split(text, separator, thing):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise Refused(f"{thing}: parameters are name=value, got {part[:60]!r}")
        if name in table:
            raise Refused(f"{thing}: {name} is there twice")
        table[name] = value
    return table


def read(text: str, kind: Any, thing: str) -> Any:
    """The value that `text` stands for where a parameter is annotated with `kind`; a word where nothing else fits.

    thing: for error messages. Raises Refused for an unknown base or field, brackets that do not match.
    """
    options = list(_options(kind))
    if text in options:  # a word of a Literal, also where it looks like something else
        return text
    if text == "none" and (type(None) in options or not any(_is_tuple(each) for each in options)):
        return None
    members = next((each for each in options if _is_tuple(each)), None)
    if members is not None:
        return _tuple(text, members, thing)
    if text.endswith("]"):
        return _object(text, options, thing)
    return _number(text, options)


def write(value: Any) -> str:
    """The text of a value. Refused: a value of a type that has no text, such as an array."""
    if value is None or isinstance(value, bool | np.bool_):
        return WORDS[None if value is None else bool(value)]
    if isinstance(value, Enum):
        return write(value.value)
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "e")  # a plus joins the members of a tuple
    if isinstance(value, tuple):
        parts = [f"[{write(each)}]" if isinstance(each, tuple) else write(each) for each in value]
        return "none" if not parts else "+".join(parts) + "+" * (len(parts) == 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _written_object(value)
    raise Refused(f"a value of type {type(value).__name__} cannot be written as text; give it in Python")


def _options(kind: Any) -> Iterator[Any]:
    """Types and words that an annotation admits, unions and Literals opened."""
    origin = typing.get_origin(kind)
    if origin is Literal:
        yield from typing.get_args(kind)
    elif origin in (Union, types.UnionType):
        for part in typing.get_args(kind):
            yield from _options(part)
    else:
        yield kind


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple or kind is tuple


def _tuple(text: str, kind: Any, thing: str) -> tuple[Any, ...]:
    args = [each for each in typing.get_args(kind) if each is not Ellipsis]
    parts = [] if text == "none" else [part for part in _split(text, "+", thing) if part]
    kinds = args if len(args) == len(parts) else [args[0] if args else Any] * len(parts)
    return tuple(
        read(part[1:-1] if part.startswith("[") else part, each, thing) for part, each in zip(parts, kinds, strict=True)
    )


def _number(text: str, options: list[Any]) -> Any:
    if bool in options or not {int, float} & set(options):
        for value, word in WORDS.items():
            if text == word:
                return value
    for convert in (integer, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _object(text: str, options: list[Any], thing: str) -> Any:
    base, _, inner = text.partition("[")
    classes = [each for each in options if dataclasses.is_dataclass(each)]
    bases = _bases(classes)
    start = lookup(f"{thing}: base of {text[:60]}", base, bases)
    built = start if isinstance(start, type) else type(start)
    hints = typing.get_type_hints(built)
    changes = {}
    for name, value in assignments(inner[:-1], thing, ";").items():
        lookup(f"{thing}: field of {built.__name__}", name, _fields(built))
        changes[name] = read(value, hints[name], f"{thing}.{name}")
    try:
        return start(**changes) if isinstance(start, type) else dataclasses.replace(start, **changes)
    except TypeError as error:
        raise Refused(f"{thing}: {text[:60]}: {error}") from None


def _bases(classes: list[Any]) -> dict[str, Any]:
    """What an object of one of `classes` may start from: them, and their ready constants."""
    ready = {**formats.constants(), **formats.blocks()}
    constants = {name: each for name, each in ready.items() if type(each) in classes}
    return {**constants, **{each.__name__: each for each in classes}}


def _written_object(value: Any) -> str:
    """The shortest of the texts by constants of its type and by its class."""
    defaults = {name: _default(each) for name, each in _fields(type(value)).items()}
    ready = {**formats.constants(), **formats.blocks()}
    bases = {
        name: {field: getattr(each, field) for field in defaults}
        for name, each in ready.items()
        if type(each) is type(value)
    }
    texts = [_changed(name, base, value) for name, base in {**bases, type(value).__name__: defaults}.items()]
    return min(texts, key=len)


def _changed(name: str, base: Mapping[str, Any], value: Any) -> str:
    fields = [field for field in _fields(type(value)) if getattr(value, field) != base[field]]
    return f"{name}[{';'.join(f'{field}={write(getattr(value, field))}' for field in fields)}]"


def _fields(built: Any) -> Mapping[str, Any]:
    return {field.name: field for field in dataclasses.fields(built) if field.init}


def _default(field: Any) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _split(text: str, separator: str, thing: str) -> list[str]:
    """Parts of `text` between separators outside brackets, without empty text."""
    parts, depth, first = [], 0, 0
    for place, letter in enumerate(text):
        depth += _PAIRS.get(letter, 0)
        if depth < 0:
            break
        if letter == separator and not depth:
            parts.append(text[first:place])
            first = place + 1
    if depth:
        raise Refused(f"{thing}: brackets do not match in {text[:60]!r}")
    return [*parts, text[first:]] if text else []
