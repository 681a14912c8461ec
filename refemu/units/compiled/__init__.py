"""Compiled forms made of the text of declared units, for those whose events are integer arithmetic.

numba compiles the methods of the readable form as they stand (`lifted`), in a loop over devices and events. The widths
of the ports must bound every value to 64 bits, and every index to its vector (`bounds`). A configuration in which they
do not runs the readable form.
"""

import ast
import copy
import functools
import linecache
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.jit import inlined, kernel
from refemu.units.compiled import bounds
from refemu.units.compiled.lifted import CONSTANTS, KEEP, PLACE, STATE, WRITE, Lifted, attribute, constant, number
from refemu.units.declared import Declared
from refemu.units.derived import Arrays, twin
from refemu.units.ports import Port
from refemu.units.stepped import Stepped

INITIAL = "_i"  #: argument of a loop: registers at reset


class _Unbounded(Exception):
    """A configuration whose values may leave 64 bits."""


def derived(unit: Any) -> Callable[..., Any]:
    """The compiled `run` of a declared unit. Refused: a line of its events has no compiled form."""
    _form(unit.unit_class(**next(iter(unit.configs.values()))))

    @twin(unit)
    def run(device: Any, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
        """One loop over devices and events."""
        if refusal(device):
            raise _Unbounded
        form = _form(device)
        axes = () if unit.timing == "event" else (1,)
        arrays = (each.reshape(*axes, *each.shape) for each in (*inputs, *outputs))
        counts: Sequence[int] = form.module.loop(form.constants_of(device), form.initial_of(device), *arrays)
        return counts

    @functools.wraps(run)
    def bounded(*values: Any, **named: Any) -> Any:
        try:
            return run(*values, **named)
        except _Unbounded:
            return unit.run(*values, **named)

    return bounded


def refusal(device: Any) -> str:
    """Why a device has no compiled form: which value may leave 64 bits; "" if it has one."""
    values: dict[str, Any] = device.__dict__
    kind: Any = type(device)
    return _refusal(kind, *(values[name] for name in device._names))


@functools.lru_cache(maxsize=1024, typed=True)
def _refusal(unit_class: Any, *values: Any) -> str:
    device = unit_class(**dict(zip(unit_class._names, values, strict=True)))
    try:
        _form(device).require_bounds(device)
    except Refused as error:
        return str(error)
    return ""


_forms: dict[tuple[Any, ...], "Form"] = {}  #: by class, and which ports are vectors


def _form(device: Any) -> "Form":
    key = type(device), *((port.name, port.lanes is None) for port in device.ports.all)
    if key not in _forms:
        _forms[key] = Form(device)
    return _forms[key]


@inlined
def empty(length):  # type: ignore[no-untyped-def]
    """An array for a list of integers."""
    return np.empty(length, np.int64)


@inlined
def bit_length(value):  # type: ignore[no-untyped-def]
    """`int.bit_length`."""
    rest, length = abs(value), 0
    while rest:
        rest, length = rest >> 1, length + 1
    return length


class Form:
    """Compiled form of a class, for devices with the same scalar ports and vectors."""

    def __init__(self, device: Any) -> None:
        self.kind, self.ports = type(device), device.ports
        self.registers: tuple[Port, ...] = self.ports.outputs + self.ports.state
        self.lifted = Lifted(device, self.registers)
        self.events = {name: self.lifted.method(name, event=name) for name in self.kind.events}
        self.chooses = self.kind.opens is not Declared.opens
        self.goes_on = self.kind.busy is not Stepped.busy
        names = ["opens"] * self.chooses + ["busy"] * self.goes_on
        names += ["follows"] * (self.kind.follows is not Declared.follows)
        self.choices = {name: self.lifted.method(name) for name in names}
        known = {"event", *(port.name for port in self.ports.all)}
        if unknown := self.lifted.read - known:
            raise Refused(f"{device.name}: events read self.state.{min(unknown)}, which is no port or register")
        self.kept = [port for port in self.ports.all if port.lanes is None or port.name in self.lifted.read]
        self.held = [name for name in ("event", *(port.name for port in self.ports.all)) if name in self.lifted.read]

    @functools.cached_property
    def module(self) -> Any:
        """A module with the functions and `loop`: constants, registers at reset, inputs, outputs -> counters."""
        vectors = [port.name for port in self.ports.all if port.lanes]
        module = ModuleType(f"{__name__}.form_{self.kind.name}_{number(' '.join(vectors))}")
        source = "\n".join([*map(self._function, self.lifted.functions.values()), *self._text()])
        linecache.cache[module.__name__] = len(source), None, source.splitlines(keepends=True), module.__name__
        names = vars(module)
        names |= {"np": np, "empty": empty, "bit_length": bit_length, **self.lifted.names}
        exec(compile(source, module.__name__, "exec"), names)  # of modules that have been imported
        for name in self.lifted.functions:
            names[name] = inlined(names[name])
        names["loop"] = kernel(names["loop"])
        sys.modules[module.__name__] = module
        return module

    def constants_of(self, device: Any) -> tuple[Any, ...]:
        """Constants of a device, as `loop` takes them."""
        return tuple(constant(attribute(device, path)) for path in self.lifted.constants.values())

    def initial_of(self, device: Any) -> tuple[Any, ...]:
        """Registers and latched inputs of a device at reset, as `loop` takes them."""
        values = (device.initial.get(port.name, 0) for port in self.kept)
        return tuple(
            np.array(value, np.int64) if port.lanes else value for port, value in zip(self.kept, values, strict=True)
        )

    def require_bounds(self, device: Any) -> None:
        """Refuse a device in which a value may leave 64 bits."""
        limits = {port.name: _limits(port) for port in device.ports.all}
        words = bounds.Range(0, (1 << 32) - 1)
        names = {f"s_{name}": limits.get(name, words) for name in self.held}
        names |= dict(zip(self.lifted.constants, map(bounds.of_constant, self.constants_of(device)), strict=True))
        names |= {name: bounds.of_constant(value) for name, value in self.lifted.names.items()}
        written = {f"{WRITE}{port.name}": port.count for port in device.ports.outputs + device.ports.state}
        check = bounds.Bounds(device.name, self.lifted.functions, names, written)
        inputs = [limits[port.name] for port in device.ports.inputs]
        for name, event in self.events.items():
            check.call(event, [(), (), (), *(inputs if self._takes(name) else ())])
        for name, choice in self.choices.items():
            check.call(choice, [(), (), *(inputs if name == "opens" else ())])

    def _function(self, tree: ast.FunctionDef) -> str:
        """A lifted function that takes constants and registers out of its first arguments."""
        body = _Written(self.held).visit(ast.Module(copy.deepcopy(tree.body), [])).body
        used = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
        places = {name: f"{PLACE}[{place}]" for place, name in enumerate(self._places())}
        places |= {f"s_{name}": f"{STATE}[{place}]" for place, name in enumerate(self.held)}
        places |= {name: f"{CONSTANTS}[{place}]" for place, name in enumerate(self.lifted.constants)}
        prologue = ast.parse("\n".join(f"{name} = {place}" for name, place in places.items() if name in used)).body
        whole = ast.FunctionDef(**{**vars(tree), "body": [*prologue, *body]})
        return ast.unparse(ast.fix_missing_locations(whole))

    def _places(self) -> list[str]:
        """What an event needs to write vectors."""
        return [*(f"y_{port.name}" for port in self.registers if port.lanes), "_d", "_e"]

    def _text(self) -> list[str]:
        """Lines of `loop`."""
        inputs, counters = self.ports.inputs, list(self.kind.counters)
        vectors = [port for port in self.kept if port.lanes]
        scalars = [port for port in self.registers if port.lanes is None]
        arrays = [_array(port, inputs) for port in self.ports.all]
        return [
            f"def loop({', '.join([CONSTANTS, INITIAL, *arrays])}):",
            *(f"    n_{name} = np.int64(0)" for name in counters),
            *(f"    s_{port.name} = np.zeros({_array(port, inputs)}.shape[2], np.int64)" for port in vectors),
            *(f"    i_{port.name} = np.zeros(x_{port.name}.shape[2], np.int64)" for port in inputs if port.lanes),
            f"    for _d in range({arrays[0]}.shape[0]):",
            f"        s_event = np.int64({number('reset')})",
            *(
                f"        s_{port.name}{'[:]' * len(port.shape)} = {INITIAL}[{place}]"
                for place, port in enumerate(self.kept)
            ),
            f"        for _e in range({arrays[0]}.shape[1]):",
            *(line for port in inputs for line in _read(port)),
            *self._event("            ", [f"i_{port.name}" for port in inputs], scalars, "opens", 0),
            *(
                f"            s_{port.name}{'[:]' * len(port.shape)} = i_{port.name}"
                for port in inputs
                if port.name in self.held
            ),
            *self._following(scalars),
            *(f"            y_{port.name}[_d, _e] = s_{port.name}{' != 0' * (port.bits == 1)}" for port in scalars),
            f"    return {''.join(f'n_{name}, ' for name in counters)}",
        ]

    def _state(self) -> str:
        return f"({''.join(f's_{name}, ' for name in self.held)})"

    def _following(self, scalars: Sequence[Port]) -> list[str]:
        """Lines of the events that take no inputs."""
        if not self.goes_on:
            return []
        event = self._event(" " * 16, [], scalars, "follows", -1)
        return [f"            while {self.choices['busy']}({CONSTANTS}, {self._state()}):", *event]

    def _event(
        self, margin: str, inputs: Sequence[str], scalars: Sequence[Port], choice: str, default: int
    ) -> list[str]:
        """Lines of one event, of those that take these inputs."""
        arguments = ", ".join([CONSTANTS, STATE, *inputs])
        taken = ", ".join([CONSTANTS, STATE, f"({', '.join(self._places())})", *inputs])
        changed = "".join(f"{name}, " for name in ["s_event", *(f"s_{port.name}" for port in scalars)])
        changed += "".join(f"a_{name}, " for name in self.kind.counters)
        lines = [f"{STATE} = {self._state()}"]
        if choice not in self.choices:
            lines.append(f"{changed} = {self.events[self.kind.events[default]]}({taken})")
        else:
            lines.append(f"choice = {self.choices[choice]}({arguments})")
            taking = [name for name in self.events if self._takes(name) == bool(inputs)]
            for place, name in enumerate(taking):
                lines.append(f"{'el' * (place > 0)}if choice == {number(name)}:")
                lines.append(f"    {changed} = {self.events[name]}({taken})")
            lines += ["else:", "    raise ValueError('an event that is not declared')"]
        return [margin + line for line in [*lines, *(f"n_{name} += a_{name}" for name in self.kind.counters)]]

    def _takes(self, event: str) -> bool:
        """Whether an event takes inputs."""
        taken = self.lifted.functions[self.events[event]].args
        return len(taken.args) > 3 or taken.vararg is not None


def _array(port: Port, inputs: Sequence[Port]) -> str:
    return f"{'x' if port in inputs else 'y'}_{port.name}"


def _limits(port: Port) -> bounds.Value:
    limits = bounds.Range(*port.limits)
    return bounds.Vector(limits, port.lanes) if port.lanes else limits


def _read(port: Port) -> list[str]:
    name = port.name
    if port.lanes is None:
        return [f"            i_{name} = np.int64(x_{name}[_d, _e])"]
    return [
        f"            for k in range(i_{name}.size):",
        f"                i_{name}[k] = x_{name}[_d, _e, k]",
    ]


class _Written(ast.NodeTransformer):
    """Puts loops in the place of the statements that write and keep vectors."""

    def __init__(self, held: Sequence[str]) -> None:
        self.held = held

    def visit_Expr(self, node: ast.Expr) -> Any:
        begin, _, argument = ast.unparse(node)[:-1].partition("(")
        name = begin.partition("_")[2]
        row = f"y_{name}[_d, _e, _lane]"
        if begin.startswith(WRITE):
            return ast.parse(f"for _lane in range(y_{name}.shape[2]): {row} = {argument}[_lane]").body
        if begin.startswith(KEEP):
            return (
                ast.parse(f"for _lane in range(s_{name}.size): s_{name}[_lane] = {row}").body
                if name in self.held
                else []
            )
        return node
