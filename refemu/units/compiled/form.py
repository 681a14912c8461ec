"""The compiled form of a class: lifted functions, and a loop over devices and events that calls them."""

import ast
import copy
import functools
import inspect
import linecache
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.jit import inlined, kernel
from refemu.units.compiled import ranges
from refemu.units.compiled.bounds import Bounds
from refemu.units.compiled.lifter import CONSTANTS, GIVEN_UP, PLACE, STATE, WRITE, Lifted, attribute, constant, number
from refemu.units.compiled.placement import INTEGERS, REALS, Placed
from refemu.units.compiled.scalars import COMPILED, LISTS, NAMES, GivenUp
from refemu.units.declaration import Declared, InPlace
from refemu.units.ports import Port
from refemu.units.stepping import Stepped

EVENTS = ranges.Range(-1, 1 << 48)  #: number of the last event
LENGTHS, INITIAL = "_l", "_i"  #: arguments of a loop: lengths of lists, registers at reset


class _Spread(ast.NodeTransformer):
    """Replaces the arguments for state, constants and arrays by the names that each function uses."""

    def __init__(self, arguments: Mapping[str, Sequence[str]], bodies: Mapping[str, Sequence[ast.stmt]]) -> None:
        self.arguments, self.bodies = arguments, bodies
        self.needs = {name: _names(body) for name, body in bodies.items()}
        while any(len(self._all(name)) > len(names) for name, names in self.needs.items()):
            self.needs = {name: self._all(name) for name in bodies}

    def _all(self, function: str) -> set[str]:
        """Names in a function and in the functions that it calls."""
        return self.needs[function].union(*(self.needs[name] for name in self.needs[function] if name in self.needs))

    def function(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """A function with arguments for all names that it uses."""
        whole = ast.FunctionDef(**{**vars(tree), "args": copy.deepcopy(tree.args), "body": self.bodies[tree.name]})
        args = [name for each in whole.args.args for name in self._of(tree.name, each.arg)]
        whole.args.args = list(map(ast.arg, args))
        return ast.fix_missing_locations(self.visit(whole))

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """The text of a call."""
        return f"{function}({', '.join(name for each in arguments for name in self._of(function, each))})"

    def _of(self, function: str, argument: str) -> list[str]:
        if argument not in self.arguments:
            return [argument]
        return [name for name in self.arguments[argument] if name in self.needs[function]]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Of a call."""
        args: list[ast.expr] = []
        for each in node.args:
            if isinstance(each, ast.Name) and each.id in self.arguments:
                args += [ast.Name(name, ast.Load()) for name in self._of(ast.unparse(node.func), each.id)]
            else:
                args.append(self.visit(each))
        return ast.Call(node.func, args, [])


def _names(body: Sequence[ast.stmt]) -> set[str]:
    return {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}


class Form:
    """Compiled form of a class, for devices with the same scalar ports and vectors."""

    def __init__(self, device: Any) -> None:
        self.kind, self.ports = type(device), device.ports
        if issubclass(self.kind, InPlace):
            place = f"{inspect.getsourcefile(self.kind)}:{inspect.getsourcelines(self.kind)[1]}"
            raise Refused(f"{device.name}: {place}: events that write memories in place have no compiled form")
        self.registers: tuple[Port, ...] = self.ports.outputs + self.ports.state
        self.lifted = Lifted(device, self.registers)
        self.events = {name: self.lifted.method(name, event=name) for name in self.kind.events}
        self.chooses = self.kind.opens is not Declared.opens
        self.goes_on = self.kind.busy is not Stepped.busy
        names = ["opens"] * self.chooses + ["busy"] * self.goes_on
        names += ["follows"] * (self.kind.follows is not Declared.follows)
        self.choices = {name: self.lifted.method(name) for name in names}
        if not self.goes_on:
            self._name_inputs()
        self.states = ["event", self.kind.number, *(port.name for port in self.ports.all)]
        if unknown := self.lifted.read.difference(self.states):
            raise Refused(f"{device.name}: events read self.state.{min(unknown)}, which is not a port or register")
        self.kept = [port for port in self.ports.all if port.lanes is None or port.name in self.lifted.read]
        self.held = [name for name in self.states if name in self.lifted.read]

    def _name_inputs(self) -> None:
        """Name the inputs that events take as a tuple."""
        for tree in map(self.lifted.functions.__getitem__, self.events.values()):
            if tree.args.vararg:
                left = self.ports.inputs[len(tree.args.args) - 3 :]
                inputs = [f"{tree.args.vararg.arg}_{place}" for place in range(len(left))]
                tree.args.args += map(ast.arg, inputs)
                tree.body[:0] = ast.parse(
                    f"{tree.args.vararg.arg} = {''.join(f'{name}, ' for name in inputs) or '()'}"
                ).body
                tree.args.vararg = None

    @functools.cache  # noqa: B019  forms live until the process ends
    def module(self, *shared: str) -> Any:
        """A module with the functions and `loop`: constants, lengths, registers at reset, arrays -> counters.

        shared: lists of one length, whose arrays all events share.
        """
        ports = " ".join([*(port.name for port in self.ports.all if port.lanes), *shared])
        name = f"{__name__}.form_{self.kind.name}_{number(ports)}"
        while name in sys.modules:  # of another device of this kind, whose kernels stay where they are found
            name += "_"
        module = ModuleType(name)
        bodies = {name: Placed(tree, self.held, shared).body for name, tree in self.lifted.functions.items()}
        spread = _Spread(self._arguments(shared), bodies)
        functions = [spread.function(tree) for tree in self.lifted.functions.values()]
        source = "\n".join([*map(ast.unparse, functions), *self._text(shared, spread)])
        linecache.cache[module.__name__] = len(source), None, source.splitlines(keepends=True), module.__name__
        names = vars(module)
        names |= {f"f_{each.__name__}": each for each in LISTS}
        names |= {NAMES[known]: each for known, each in COMPILED.items()} | self.lifted.names
        names |= {"np": np, GIVEN_UP: GivenUp}
        exec(compile(source, module.__name__, "exec"), names)  # source from imported modules
        for tree in functions:
            names[tree.name] = inlined(names[tree.name])
        names["loop"] = kernel(names["loop"])
        sys.modules[module.__name__] = module
        return module

    def constants_of(self, device: Any) -> tuple[Any, ...]:
        """Constants of a device for `loop`; raises Refused for values that are none."""
        return tuple(self._constant(device, path) for path in self.lifted.constants.values())

    def _constant(self, device: Any, path: Sequence[str]) -> Any:
        try:
            value = attribute(device, path)
        except (AttributeError, AssertionError):
            raise Refused(f"{device.name}: self.{'.'.join(path)} is missing") from None
        known = constant(value)
        if known is None:
            raise Refused(f"{device.name}: self.{'.'.join(path)} is {value!r}, which no compiled form takes")
        return known

    def initial_of(self, device: Any) -> tuple[Any, ...]:
        """Registers and latched inputs of a device at reset, for `loop`."""
        values = (device.initial.get(port.name, 0) for port in self.kept)
        return tuple(
            np.array(value, np.int64) if port.lanes else value for port, value in zip(self.kept, values, strict=True)
        )

    def lengths_of(self, device: Any) -> dict[str, int]:
        """Lists of events with one length; raises Refused if a value may exceed 64 bits."""
        limits = {port.name: _limits(port) for port in device.ports.all} | {self.kind.number: EVENTS}
        words = ranges.Range(0, (1 << 32) - 1)
        names = {f"s_{name}": limits.get(name, words) for name in self.held}
        names |= dict(zip(self.lifted.constants, map(ranges.of_constant, self.constants_of(device)), strict=True))
        names |= {name: ranges.of_constant(value) for name, value in self.lifted.names.items()}
        written = {f"{WRITE}{port.name}": port.count for port in device.ports.outputs + device.ports.state}
        check = Bounds(device.name, self.lifted.functions, names, written)
        inputs = [limits[port.name] for port in device.ports.inputs]
        for name, event in self.events.items():
            check.call(event, [(), (), (), *(inputs if self._takes(name) else ())])
        for name, choice in self.choices.items():
            check.call(choice, [(), (), *(inputs if name == "opens" else ())])
        return {name: length for name, length in sorted(check.lengths.items()) if length >= 0}

    def _arguments(self, shared: Sequence[str]) -> dict[str, list[str]]:
        """Names that replace the first arguments of the functions."""
        vectors = [f"y_{port.name}" for port in self.registers if port.lanes]
        states = [f"s_{name}" for name in self.held]
        return {CONSTANTS: list(self.lifted.constants), STATE: states, PLACE: [*vectors, "_d", "_e", *shared]}

    def _text(self, shared: Sequence[str], spread: _Spread) -> list[str]:
        """Lines of `loop`."""
        inputs, counters = self.ports.inputs, list(self.kind.counters)
        vectors = [port for port in self.kept if port.lanes]
        scalars = [port for port in self.registers if port.lanes is None]
        arrays = [_array(port, inputs) for port in self.ports.all]
        kinds = {REALS: "np.float64", INTEGERS: "np.int64"}
        return [
            f"def loop({', '.join([CONSTANTS, LENGTHS, INITIAL, *arrays])}):",
            *(f"    {name} = {CONSTANTS}[{place}]" for place, name in enumerate(self.lifted.constants)),
            *(f"    {name} = np.empty({LENGTHS}[{at}], {kinds[name[:2]]})" for at, name in enumerate(shared)),
            *(f"    n_{name} = np.int64(0)" for name in counters),
            *(f"    s_{port.name} = np.zeros({_array(port, inputs)}.shape[2], np.int64)" for port in vectors),
            *(f"    i_{port.name} = np.zeros(x_{port.name}.shape[2], np.int64)" for port in inputs if port.lanes),
            f"    for _d in range({arrays[0]}.shape[0]):",
            f"        s_event, s_{self.kind.number} = np.int64({number('reset')}), np.int64(-1)",
            *(
                f"        s_{port.name}{'[:]' * len(port.shape)} = {INITIAL}[{place}]"
                for place, port in enumerate(self.kept)
            ),
            f"        for _e in range({arrays[0]}.shape[1]):",
            *(line for port in inputs for line in _read(port)),
            *self._event("            ", [f"i_{port.name}" for port in inputs], "opens", 0, spread),
            *(
                f"            s_{port.name}{'[:]' * len(port.shape)} = i_{port.name}"
                for port in inputs
                if port.name in self.held
            ),
            f"            s_{self.kind.number} += 1",
            *self._following(spread),
            *(f"            y_{port.name}[_d, _e] = s_{port.name}{' != 0' * (port.bits == 1)}" for port in scalars),
            f"    return {''.join(f'n_{name}, ' for name in counters)}",
        ]

    def _following(self, spread: _Spread) -> list[str]:
        """Lines of the events without inputs."""
        if not self.goes_on:
            return []
        busy = spread.call(self.choices["busy"], [CONSTANTS, STATE])
        return [f"            while {busy}:", *self._event(" " * 16, [], "follows", -1, spread)]

    def _event(self, margin: str, inputs: Sequence[str], choice: str, default: int, spread: _Spread) -> list[str]:
        """Lines of one of the events with these inputs."""
        taken = [CONSTANTS, STATE, PLACE, *inputs]
        changed = "".join(
            f"s_{name}, " for name in ["event", *(port.name for port in self.registers if port.lanes is None)]
        )
        changed += "".join(f"a_{name}, " for name in self.kind.counters)
        lines = []
        if choice not in self.choices:
            lines.append(f"{changed} = {spread.call(self.events[self.kind.events[default]], taken)}")
        else:
            lines.append(f"choice = {spread.call(self.choices[choice], [CONSTANTS, STATE, *inputs])}")
            taking = [name for name in self.events if self._takes(name) == bool(inputs)]
            for place, name in enumerate(taking):
                lines.append(f"{'el' * (place > 0)}if choice == {number(name)}:")
                lines.append(f"    {changed} = {spread.call(self.events[name], taken)}")
            lines += ["else:", "    raise ValueError('an event that is not declared')"]
        return [margin + line for line in [*lines, *(f"n_{name} += a_{name}" for name in self.kind.counters)]]

    def _takes(self, event: str) -> bool:
        """Whether an event takes inputs."""
        taken = self.lifted.functions[self.events[event]].args
        return len(taken.args) > 3 or taken.vararg is not None


def _array(port: Port, inputs: Sequence[Port]) -> str:
    return f"{'x' if port in inputs else 'y'}_{port.name}"


def _limits(port: Port) -> ranges.Value:
    limits = ranges.Range(*port.limits)
    return ranges.Vector(limits, port.lanes) if port.lanes else limits


def _read(port: Port) -> list[str]:
    name = port.name
    if port.lanes is None:
        return [f"            i_{name} = np.int64(x_{name}[_d, _e])"]
    return [f"            for k in range(i_{name}.size):", f"                i_{name}[k] = x_{name}[_d, _e, k]"]
