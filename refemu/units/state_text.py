"""Texts of a State for a debugger: `repr` and `str`, at most MOST characters each, codes in hex.

`repr` evaluates to the State if it is short enough. A longer one folds its lanes, `(0x3c00, 0x3c00, ... 64 values)`,
which is not valid Python, so that nobody mistakes it for the whole. `str` folds too, and has the values of floats after
their patterns, `0x3c00=1`. A notebook shows a State as a table and, if its unit has one, as a drawing.
"""

import dataclasses
import functools
import html
import importlib
from collections.abc import Callable, Mapping
from typing import Any, get_args

from refemu.units import events
from refemu.units.ports import Port, Ports
from refemu.units.value_text import NUMBERS, number

MOST = 400  #: most characters of a text
LANES = (8, 4, 2, 1, 0)  #: numbers of shown lanes of a value; the first that makes a text short enough is taken
FLOATS = ("f16", "f32")


def install(unit: Any) -> None:
    """Give the State of a unit its texts. unit: a Unit."""
    state = state_class(unit.unit_class)
    if state is None:
        return

    @functools.cache
    def codes() -> Mapping[str, tuple[Port, bool]]:
        return _codes(unit)

    texts: dict[str, Callable[[Any], str]] = {
        "__repr__": lambda self: _evaluating(self, codes()),
        "__str__": lambda self: _short(self, codes(), values=True),
        "_repr_html_": lambda self: _html(unit, self),
    }
    unit.unit_class._unit = unit
    for name, function in texts.items():
        setattr(state, name, function)


def state_class(stepped: type[Any]) -> type[Any] | None:
    """The State of a declared unit, or of the base `Stepped[State]` of a stepping class; None without one."""
    if hasattr(stepped, "State"):
        return stepped.State
    for each in stepped.__mro__:
        for base in vars(each).get("__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and dataclasses.is_dataclass(argument):
                    return argument
    return None


def drawing(unit: Any, ports: Ports, state: Any) -> str:
    """SVG of a State; "" if its unit has no drawing. Drawings are a higher layer, imported on demand."""
    return str(importlib.import_module("refemu.draw.registry").of_ports(unit, ports, state))


def _html(unit: Any, state: Any) -> str:
    """Table of a State, and its drawing if all configurations that fit draw it alike; its text if none fits."""
    fitting = [ports for ports in map(unit.ports, unit.configs.values()) if _fits(ports, state)]
    if not fitting:
        return f"<pre>{html.escape(str(state), quote=False)}</pre>"
    drawings = {drawing(unit, ports, state) for ports in fitting}
    table = events.to_html(f"{unit.name} after {state.event}", fitting[0], [state])
    return table + (drawings.pop() if len(drawings) == 1 else "")


def _fits(ports: Ports, state: Any) -> bool:
    """Whether every port has the same number of lanes in the State."""
    values = ((port, getattr(state, port.name)) for port in ports.all)
    return all((len(value) if isinstance(value, tuple) else None) == port.lanes for port, value in values)


def _codes(unit: Any) -> Mapping[str, tuple[Port, bool]]:
    """Ports of codes by name, and whether all configurations have the same kind of float there.

    A port that is a number in some configuration is excluded.
    """
    ports: dict[str, list[Port]] = {}
    for config in unit.configs.values():
        for port in unit.ports(config).all:
            ports.setdefault(port.name, []).append(port)
    return {
        name: (each[0], each[0].kind in FLOATS and len({port.kind for port in each}) == 1)
        for name, each in ports.items()
        if all(port.kind not in NUMBERS for port in each)
    }


def _evaluating(state: Any, codes: Mapping[str, tuple[Port, bool]]) -> str:
    text = _text(state, lambda name, value: _literal(value, codes.get(name)))
    return text if len(text) <= MOST else _short(state, codes, values=False)


def _short(state: Any, codes: Mapping[str, tuple[Port, bool]], values: bool) -> str:
    """values: whether to show values of floats after their patterns."""
    text = ""
    for lanes in LANES:
        text = _text(state, functools.partial(_folded, codes=codes, lanes=lanes, values=values))
        if len(text) <= MOST:
            return text
    return f"{text[: MOST - 5]} ...)"


def _text(state: Any, spell: Callable[[str, Any], str]) -> str:
    fields = ((field.name, getattr(state, field.name)) for field in dataclasses.fields(state))
    return f"{type(state).__qualname__}({', '.join(f'{name}={spell(name, value)}' for name, value in fields)})"


def _literal(value: Any, code: tuple[Port, bool] | None) -> str:
    """Python text of a value, codes in hex."""
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(_literal(item, code) for item in value)}{',' * (len(value) == 1)})"
    return repr(value) if code is None else _hexadecimal(value, code[0])


def _hexadecimal(value: Any, port: Port) -> str:
    """A code in hex that evaluates to it; the repr of anything else."""
    return f"0x{value:0{-(-port.bits // 4)}x}" if isinstance(value, int) and value >= 0 else repr(value)


def _folded(name: str, value: Any, codes: Mapping[str, tuple[Port, bool]], lanes: int, values: bool) -> str:
    if isinstance(value, tuple | bytes | list):
        rest = [f"... {len(value)} values"] if len(value) > lanes else []
        items = [_folded(name, item, codes, min(lanes, 2), values) for item in value[:lanes]]
        return f"({', '.join(items + rest)}{',' * (len(items) == 1 and not rest)})"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(...)"
    port, is_float = codes.get(name, (None, False))
    if port is None or not isinstance(value, int):
        return repr(value)
    return _hexadecimal(value, port) + (f"={number(port, value)}" if values and is_float else "")
