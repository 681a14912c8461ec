"""The compiled form of a class: lifted functions, and a loop over devices and events that calls them."""

import ast
import copy
import functools
import linecache
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.jit import helper, inlined, kernel
from refemu.units.compiled import bounds
from refemu.units.compiled.lifted import CONSTANTS, GIVEN_UP, PLACE, STATE, WRITE, Lifted, attribute, constant, number
from refemu.units.compiled.placed import Placed
from refemu.units.declared import Declared
from refemu.units.ports import Port
from refemu.units.stepped import Stepped

LENGTHS, INITIAL = "_l", "_i"  #: arguments of a loop: lengths of lists, registers at reset


class GivenUp(Exception):
    """A configuration whose values may leave 64 bits, or inputs that the events refuse: the readable form runs."""


@inlined
def empty(length):  # type: ignore[no-untyped-def]
    """An array for a list of integers."""
    return np.empty(length, np.int64)


@inlined
def count(values, value):  # type: ignore[no-untyped-def]
    """`tuple.count`."""
    number = 0
    for each in values:
        number += each == value
    return number


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
        self.kept = [port for port in self.ports.all if port.lanes == 1 or port.name in self.lifted.read]
        self.held = [name for name in ("event", *(port.name for port in self.ports.all)) if name in self.lifted.read]

    @functools.cache  # noqa: B019  a form is never dropped
    def module(self, *shared: str) -> Any:
        """A module with the functions and `loop`: constants, lengths, registers at reset, arrays -> counters.

        shared: lists of one length, whose arrays all events share.
        """
        ports = " ".join([*(port.name for port in self.ports.all if port.lanes > 1), *shared])
        module = ModuleType(f"{__name__}.form_{self.kind.name}_{number(ports)}")
        functions = [self._function(tree, shared) for tree in self.lifted.functions.values()]
        source = "\n".join([*functions, *self._text(shared)])
        linecache.cache[module.__name__] = len(source), None, source.splitlines(keepends=True), module.__name__
        names = vars(module)
        names |= {"np": np, "empty": empty, "bit_length": bit_length, "count": count, **self.lifted.names}
        names[GIVEN_UP] = GivenUp
        exec(compile(source, module.__name__, "exec"), names)  # of modules that have been imported
        for name, tree in self.lifted.functions.items():
            names[name] = (helper if _is_event(tree) else inlined)(names[name])
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
            np.array(value, np.int64) if port.lanes > 1 else value
            for port, value in zip(self.kept, values, strict=True)
        )

    def lengths_of(self, device: Any) -> dict[str, int]:
        """Lists of events that have one length. Refused: a value may leave 64 bits."""
        limits = {port.name: _limits(port) for port in device.ports.all}
        words = bounds.Range(0, (1 << 32) - 1)
        names = {f"s_{name}": limits.get(name, words) for name in self.held}
        names |= dict(zip(self.lifted.constants, map(bounds.of_constant, self.constants_of(device)), strict=True))
        names |= {name: bounds.of_constant(value) for name, value in self.lifted.names.items()}
        written = {f"{WRITE}{port.name}": port.lanes for port in device.ports.outputs + device.ports.state}
        check = bounds.Bounds(device.name, self.lifted.functions, names, written)
        inputs = [limits[port.name] for port in device.ports.inputs]
        for name, event in self.events.items():
            check.call(event, [(), (), (), *(inputs if self._takes(name) else ())])
        for name, choice in self.choices.items():
            check.call(choice, [(), (), *(inputs if name == "opens" else ())])
        return {name: length for name, length in sorted(check.lengths.items()) if length >= 0}

    def _function(self, tree: ast.FunctionDef, shared: Sequence[str]) -> str:
        """A lifted function that takes constants, registers and arrays as arguments of their own."""
        body = Placed(tree, self.held, shared).body
        whole = _Spread(self._arguments(shared)).visit(ast.FunctionDef(**{**vars(copy.deepcopy(tree)), "body": body}))
        return ast.unparse(ast.fix_missing_locations(whole))

    def _arguments(self, shared: Sequence[str]) -> dict[str, list[str]]:
        """What stands for the first arguments of the functions."""
        vectors = [f"y_{port.name}" for port in self.registers if port.lanes > 1]
        states = [f"s_{name}" for name in self.held]
        return {CONSTANTS: list(self.lifted.constants), STATE: states, PLACE: [*vectors, "_d", "_e", *shared]}

    def _text(self, shared: Sequence[str]) -> list[str]:
        """Lines of `loop`."""
        inputs, counters = self.ports.inputs, list(self.kind.counters)
        vectors = [port for port in self.kept if port.lanes > 1]
        scalars = [port for port in self.registers if port.lanes == 1]
        arrays = [_array(port, inputs) for port in self.ports.all]
        return [
            f"def loop({', '.join([CONSTANTS, LENGTHS, INITIAL, *arrays])}):",
            *(f"    {name} = {CONSTANTS}[{place}]" for place, name in enumerate(self.lifted.constants)),
            *(f"    {name} = np.empty({LENGTHS}[{place}], np.int64)" for place, name in enumerate(shared)),
            *(f"    n_{name} = np.int64(0)" for name in counters),
            *(f"    s_{port.name} = np.zeros({_array(port, inputs)}.shape[2], np.int64)" for port in vectors),
            *(f"    i_{port.name} = np.zeros(x_{port.name}.shape[2], np.int64)" for port in inputs if port.lanes > 1),
            f"    for _d in range({arrays[0]}.shape[0]):",
            f"        s_event = np.int64({number('reset')})",
            *(
                f"        s_{port.name}{'[:]' * (port.lanes > 1)} = {INITIAL}[{place}]"
                for place, port in enumerate(self.kept)
            ),
            f"        for _e in range({arrays[0]}.shape[1]):",
            *(line for port in inputs for line in _read(port)),
            *self._event("            ", [f"i_{port.name}" for port in inputs], "opens", 0, shared),
            *(
                f"            s_{port.name}{'[:]' * (port.lanes > 1)} = i_{port.name}"
                for port in inputs
                if port.name in self.held
            ),
            *self._following(shared),
            *(f"            y_{port.name}[_d, _e] = s_{port.name}{' != 0' * (port.bits == 1)}" for port in scalars),
            f"    return {''.join(f'n_{name}, ' for name in counters)}",
        ]

    def _following(self, shared: Sequence[str]) -> list[str]:
        """Lines of the events that take no inputs."""
        if not self.goes_on:
            return []
        arguments = self._arguments(shared)
        taken = ", ".join(arguments[CONSTANTS] + arguments[STATE])
        return [
            f"            while {self.choices['busy']}({taken}):",
            *self._event(" " * 16, [], "follows", -1, shared),
        ]

    def _event(self, margin: str, inputs: Sequence[str], choice: str, default: int, shared: Sequence[str]) -> list[str]:
        """Lines of one event, of those that take these inputs."""
        arguments = self._arguments(shared)
        chosen = ", ".join([*arguments[CONSTANTS], *arguments[STATE], *inputs])
        taken = ", ".join([*arguments[CONSTANTS], *arguments[STATE], *arguments[PLACE], *inputs])
        changed = "".join(
            f"s_{name}, " for name in ["event", *(port.name for port in self.registers if port.lanes == 1)]
        )
        changed += "".join(f"a_{name}, " for name in self.kind.counters)
        lines = []
        if choice not in self.choices:
            lines.append(f"{changed} = {self.events[self.kind.events[default]]}({taken})")
        else:
            lines.append(f"choice = {self.choices[choice]}({chosen})")
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


class _Spread(ast.NodeTransformer):
    """Puts arguments in the place of the one that stands for them."""

    def __init__(self, arguments: Mapping[str, Sequence[str]]) -> None:
        self.arguments = arguments

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        """Of a function."""
        node.args = [ast.arg(name) for each in node.args for name in self.arguments.get(each.arg, [each.arg])]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Of a call."""
        args: list[ast.expr] = []
        for each in node.args:
            known = self.arguments.get(each.id) if isinstance(each, ast.Name) else None
            args += [self.visit(each)] if known is None else [ast.Name(name, ast.Load()) for name in known]
        return ast.Call(node.func, args, [])


def _is_event(tree: ast.FunctionDef) -> bool:
    return PLACE in (each.arg for each in tree.args.args)


def _array(port: Port, inputs: Sequence[Port]) -> str:
    return f"{'x' if port in inputs else 'y'}_{port.name}"


def _limits(port: Port) -> bounds.Value:
    limits = bounds.Range(*port.limits)
    return bounds.Vector(limits, port.lanes) if port.lanes > 1 else limits


def _read(port: Port) -> list[str]:
    name = port.name
    if port.lanes == 1:
        return [f"            i_{name} = np.int64(x_{name}[_d, _e])"]
    return [
        f"            for k in range(i_{name}.size):",
        f"                i_{name}[k] = x_{name}[_d, _e, k]",
    ]
