"""Types of the arguments of public functions, checked against their annotations before anything else runs."""

import functools
import inspect
import os
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union

import numpy as np

from refemu.arith.checks import RefusedType

P = ParamSpec("P")
R = TypeVar("R")
#: what an annotation of Python's admits: NumPy's scalars for numbers, paths for Path
_PLAIN: dict[Any, tuple[type, ...]] = {
    bool: (bool, int, np.bool_),
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    Path: (str, os.PathLike),
}
_WORDS = {bool: "a bool", int: "an int", float: "a number", str: "a str", Path: "a path", np.ndarray: "an array"}
_TOKENS = "; `model.tokenizer.encode(text)` encodes a text"  # as Model.tokenizer says


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: RefusedType for an argument that its annotation excludes.

    Objects of classes outside Python and NumPy pass, since they may have the methods that are needed.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own error, with the function's name
        for name, value in values.items():
            _check(f"{_name(function)}: {name}", value, _hints(function).get(name, Any))
        return function(*args, **kwargs)

    return call


_hints = functools.cache(typing.get_type_hints)


def _name(function: Any) -> str:
    """The name under which users import it: golden.diff, models.load."""
    return f"{function.__module__.split('.')[1]}.{function.__qualname__}"


def _check(thing: str, value: Any, kind: Any) -> None:
    options = list(_options(kind))
    if not any(_admits(each, value) for each in options):
        raise RefusedType(f"{thing} must be {_listed(options)}, got {_type(value)}{_advice(options, value)}")
    inner = [each for option in options if _is_sequence(option) for each in typing.get_args(option)[:1]]
    if inner and int not in inner and type(value) in (list, tuple):  # functions check their token ids themselves
        for index, member in enumerate(value):
            if not any(_admits(each, member) for each in _options(inner[0])):
                raise RefusedType(f"{thing} must be {_listed(options)}, got {_type(member)} at index {index}")


def _options(kind: Any) -> Iterator[Any]:
    """The members of a union, opened."""
    if typing.get_origin(kind) in (Union, types.UnionType):
        for each in typing.get_args(kind):
            yield from _options(each)
    else:
        yield kind


def _is_sequence(kind: Any) -> bool:
    origin = typing.get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)


def _admits(kind: Any, value: Any) -> bool:
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind])
    if typing.get_origin(kind) is Literal:
        return isinstance(value, str)
    if _is_sequence(kind):
        names = isinstance(value, np.ndarray) and not {int, float, Any} & {*_options(typing.get_args(kind)[0])}
        return isinstance(value, Iterable) and not (names or isinstance(value, str | bytes | Mapping))
    origin = typing.get_origin(kind) or kind
    if isinstance(origin, type) and not getattr(origin, "_is_protocol", False) and isinstance(value, origin):
        return True
    return type(value).__module__ not in ("builtins", "numpy")


def _listed(options: list[Any]) -> str:
    words = list(dict.fromkeys(_word(each) for each in options if each is not type(None)))
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _word(kind: Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if typing.get_origin(kind) is Literal:
        return "a str"
    if _is_sequence(kind):
        inner = [_word(each).removeprefix("a ").removeprefix("an ") for each in _options(typing.get_args(kind)[0])]
        return f"a sequence of {' or '.join(inner)}"
    origin = typing.get_origin(kind) or kind
    return "a mapping" if origin is Mapping else "a function" if origin is Callable else f"a {origin.__name__}"


def _type(value: Any) -> str:
    if value is None or isinstance(value, str | int | float | list | tuple | dict):
        return reprlib.repr(value)[:60]
    return _WORDS.get(type(value), f"a value of type {type(value).__name__}")


def _advice(options: list[Any], value: Any) -> str:
    """What to write instead of a str where a sequence is needed."""
    inner = [each for option in options if _is_sequence(option) for each in _options(typing.get_args(option)[0])]
    if not isinstance(value, str):
        return ""
    return f"; write [{repr(value)[:60]}]" if str in inner else _TOKENS if int in inner else ""
