"""Frozen dataclasses that cost little: `dataclass(frozen=True)` as the standard library's, for states, results, ports.

A readable unit makes one state an event and a list of all units makes some 200 classes. The standard library fills a
frozen object by a call of `object.__setattr__` for each field, 2.3 us for twelve of them, and compiles six methods for
each class. Here fields go into the object's dictionary (0.7 us), and only `__init__` is compiled.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from refemu.arith.checks import plain

SCALAR = re.compile(r"\b(int|float|bool|Any)\b")  #: types of parameters

if TYPE_CHECKING:  # for a checker of types it is the standard library's
    from dataclasses import dataclass as dataclass
else:
    def dataclass(*, frozen: bool, eq: bool = True, repr: bool = True) -> Callable[[type], type]:
        """A decorator as `dataclasses.dataclass`; frozen must be true. `fields` and `replace` take its objects.

        Where `__post_init__` checks parameters, those that NumPy made, as `np.int64(4)`, are Python's own before.
        Not for fields with options of their own, `default_factory` apart, and not for classes derived from another one
        with fields. Refused as by the standard library: a field without a default behind one with a default.
        """
        assert frozen, "refemu.arith.records makes frozen dataclasses only"
        return lambda cls: _made(cls, eq, repr)


def _made(cls: type, eq: bool, repr: bool) -> type:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    methods = {"__init__": _initializer(made), "__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    methods |= {"__repr__": _repr} if repr else {}
    methods |= {"__eq__": _equal, "__hash__": _hash} if eq else {}
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(made, name, method)
    made.__dataclass_params__.frozen = True
    return made


def _initializer(cls: type) -> Callable[..., None]:
    """`__init__` that takes every field by place or by name and stores it."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    given = ", ".join(name if _needed(field) else f"{name}=_fields[{name!r}]" for name, field in fields.items())
    stores = "".join(f"\n _values[{name!r}] = {name}" for name in fields)
    made = "".join(f"\n if {name} is _fields[{name!r}]: {name} = _fields[{name!r}].default_factory()"
                   for name, field in fields.items() if field.default_factory is not dataclasses.MISSING)
    checked = hasattr(cls, "__post_init__")
    made += "".join(f"\n {name} = _plain({name})" for name, field in fields.items()
                    if checked and SCALAR.search(str(field.type)) and "ndarray" not in str(field.type))
    post = "\n self.__post_init__()" if checked else ""
    defaults = {name: field if field.default is dataclasses.MISSING else field.default
                for name, field in fields.items()}
    space: dict[str, Any] = {"_plain": plain, "_fields": defaults}
    exec(f"def __init__(self, {given}):{made}\n _values = self.__dict__{stores}{post}", space)
    space["__init__"].__annotations__ = {name: field.type for name, field in fields.items()} | {"return": None}
    return space["__init__"]


def _needed(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _values(record: Any) -> tuple[Any, ...]:
    return tuple([record.__dict__[name] for name in record.__match_args__])


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return _values(self).__hash__()


def _repr(self: Any) -> str:
    shown = zip(self.__match_args__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
