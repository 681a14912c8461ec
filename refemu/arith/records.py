"""A frozen-dataclass decorator for records of parameters, whose NumPy scalars become plain Python values."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from refemu.arith.checks import plain, require_bool, require_choice, require_int

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


@overload
@dataclass_transform(frozen_default=True)
def parameters(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(frozen_default=True)
def parameters(*, eq: bool = ..., repr: bool = ...) -> Callable[[type[T]], type[T]]: ...


def parameters(
    cls: type[T] | None = None, /, *, eq: bool = True, repr: bool = True
) -> type[T] | Callable[[type[T]], type[T]]:
    """`dataclass(frozen=True)` for a class whose `__post_init__` calls `plain_fields` before it checks its fields."""
    frozen: Callable[[type[T]], type[T]] = dataclass(frozen=True, eq=eq, repr=repr)
    return frozen if cls is None else frozen(cls)


def plain_fields(record: "DataclassInstance") -> None:
    """Convert NumPy scalars in the fields of a frozen `record` to int, float, bool or str, also inside tuples.

    Called first in `__post_init__`: `np.int64(4)` is 4 before it is checked, shown, compared and stored.
    """
    for name, value in list(vars(record).items()):
        same = value if type(value) in _PLAIN else plain(value)
        if same is not value:
            object.__setattr__(record, name, same)


_PLAIN = frozenset({int, str, bool, float, type(None)})  #: most fields; units have thousands of ports
_BOOL = (True, False)  #: the values of a bool, distinguished from those of `Literal[0, 1]` by identity


def require_options(record: "DataclassInstance", thing: str) -> None:
    """Reject fields without one of the values that their annotation names: a `Literal`, a bool, or None with these.

    `Annotated[int, 1, 8]` is an integer from 1 to 8. Every member of a tuple of options is checked. thing: start of the
    error message.
    """
    for name, (choices, many) in _options(type(record)).items():
        value = getattr(record, name)
        for option in value if many else (value,):
            if type(option) is int and choices is _BOOL:  # 1 equals True
                require_bool(option, thing, name)
            require_choice(option, choices, thing, name)

    for name, (least, most) in _ranges(type(record)).items():
        require_int(getattr(record, name), least, most, thing, name)


@functools.cache
def _ranges(record: type) -> dict[str, tuple[int, int]]:
    """Least and greatest value of the fields that are integers of a range."""
    hints = get_type_hints(record, include_extras=True).items()
    marked = {name: get_args(hint) for name, hint in hints if get_origin(hint) is Annotated}
    return {name: (each[1], each[2]) for name, each in marked.items() if each[0] is int and len(each) == 3}


@functools.cache
def _options(record: type) -> dict[str, tuple[tuple[Any, ...], bool]]:
    """The values of the fields that are options, and whether a field is a tuple of them."""
    hints = {name: hint for name, hint in get_type_hints(record).items() if get_origin(hint) is not ClassVar}
    tuples = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is tuple}
    choices = {name: _choices(tuples.get(name, hint)) for name, hint in hints.items()}
    return {name: (values, name in tuples) for name, values in choices.items() if values}


def _choices(hint: Any) -> tuple[Any, ...]:
    """The values that an annotation names; nothing if it names none, or also a type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if hint in (bool, NoneType):
        return _BOOL if hint is bool else (None,)
    members = [_choices(member) for member in get_args(hint)] if get_origin(hint) in (Union, UnionType) else []
    return tuple(dict.fromkeys(value for values in members for value in values)) if all(members) else ()
