"""Write refemu/units/__init__.pyi: the type of `find` for every unit's name, down to the fields of its Result.

    python -m tools.stubs

A derived Result has no class in any source, and `find` chooses by a string, so type checkers need the stub to know
either. It is no file of the repository: installing by tools/bootstrap.py, `make lint` and building a wheel write it.
"""

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from refemu import units
from refemu.units.declared import Declared
from refemu.units.unit import AnyUnit

PLACE = Path(units.__file__).with_suffix(".pyi")
HEAD = '''"""Hardware blocks by name. Written by tools/stubs.py; do not edit."""

from functools import cached_property
from types import ModuleType
from typing import Any, Literal, Protocol, overload

import numpy
from numpy.typing import ArrayLike

'''
COMMON = """from refemu.plugins import Broken
from refemu.units.ports import Port as Port, Ports as Ports
from refemu.units.stepped import Result as Result, Stepped as Stepped
from refemu.units.unit import Alternative as Alternative, AnyUnit as AnyUnit, Cases as Cases, Config as Config
from refemu.units.declared import Changes as Changes, Combinational as Combinational, DeclaredState
from refemu.units.declared import Sequential as Sequential, constant as constant, decides as decides
from refemu.units.derived import twin as twin
from refemu.units.faults import FaultLibrary as FaultLibrary
from refemu.units.unit import Flag as Flag, Kind as Kind, RunFunction as RunFunction, Unit as Unit, choices as choices
"""
OTHERS = """
PAPERS: dict[str, str]

def names() -> tuple[str, ...]: ...
def plugged() -> tuple[str, ...]: ...
def called() -> tuple[str, ...]: ...
def register(unit: AnyUnit) -> AnyUnit: ...
def unregister(name: str) -> None: ...
def register_faults(library: FaultLibrary) -> FaultLibrary: ...
def unregister_faults(unit: str) -> None: ...
def working() -> dict[str, AnyUnit]: ...
def broken() -> tuple[Broken, ...]: ...
def choose(spec: str | AnyUnit, config: str | None = None) -> tuple[AnyUnit, str]: ...
def configurations(spec: str | AnyUnit) -> tuple[AnyUnit, list[str]]: ...
def module(name: str | AnyUnit, compiled: bool = False) -> ModuleType: ...
"""


def text() -> str:
    """The stub: imports, then a Result, a `run` and a descriptor for each unit, then the overloads of `find`."""
    every = [units.find(name) for name in units.names()]
    classes = "\n".join(map(classes_of, every))
    finds = "".join(f'@overload\ndef find(name: Literal["{unit.name}"]) -> {camel(unit)}Unit: ...\n' for unit in every)
    other = "@overload\ndef find(name: str | AnyUnit) -> AnyUnit: ...\n"
    blocks = "".join(f"from refemu.units.{paper} import {name} as {name}\n" for name, paper in units.PAPERS.items())
    body = f"{classes}\n{finds}{other}{OTHERS}"
    modules = "".join(f"import {module}\n" for module in modules_in(body))
    return f"{HEAD}{modules}{COMMON}{blocks}\n{public()}{body}"


def public() -> str:
    """The `__all__` of the package, if it has one."""
    listed = getattr(units, "__all__", None)
    return f"__all__ = {listed!r}\n\n" if listed else ""


def classes_of(unit: AnyUnit) -> str:
    """The Result of a unit where no source has its class, the call of `run`, and the descriptor."""
    name = camel(unit)
    derived = getattr(sys.modules[unit.result.__module__], unit.result.__qualname__, None) is not unit.result
    result = f"{name}Result" if derived else spelled(unit.result)
    device = unit.unit_class(**next(iter(unit.configs.values())))
    state, device_class = spelled(type(device.snapshot())), spelled(unit.unit_class)
    made = []
    if issubclass(unit.unit_class, Declared):
        state, device_class, made = "DeclaredState", f"{name}Device", declared_classes(unit, name)
    lines = [f"class {name}Run(Protocol):", f"    def __call__({arguments(unit)}) -> {result}: ...", ""]
    lines = [*made, *lines, f"class {name}Unit(Unit[{state}, {result}]):"]
    lines += [f"    run: {name}Run", f"    unit_class: type[{device_class}]"]
    lines += ["    @cached_property", f"    def run_jit(self) -> {name}Run: ...", ""]
    fields = [f"    {field.name}: {spelled(field.type)}" for field in dataclasses.fields(unit.result)]
    return "\n".join([f"class {result}(Result):", *fields, "", *lines] if derived else lines)


def declared_classes(unit: AnyUnit, name: str) -> list[str]:
    """The State of a declared unit, and its class with the arguments of `step`."""
    state: Any = unit.unit_class.State  # type: ignore[attr-defined]
    kinds = {field.name: spelled(field.type) for field in dataclasses.fields(state)}
    taken = list(inspect.signature(unit.unit_class.step).parameters.values())[1:]  # type: ignore[attr-defined]
    given = ", ".join(f"{each.name}: {kinds[each.name]}" + " | None = ..." * (each.default is None) for each in taken)
    return [
        f"class {name}State(DeclaredState):",
        *(f"    {field}: {kind}" for field, kind in kinds.items()),
        "",
        f"class {name}Device({spelled(unit.unit_class)}):",
        f"    def step(self, {given}) -> {name}State: ...",
        f"    def snapshot(self) -> {name}State: ...",
        "",
    ]


def arguments(unit: AnyUnit) -> str:
    """The arguments of a unit's `run`: inputs are whatever becomes an array, parameters are the constructor's."""
    kinds = inspect.Parameter
    shown = ["self"]
    for name, each in inspect.signature(unit.run).parameters.items():
        keyword = each.kind is kinds.KEYWORD_ONLY
        shown += ["*"] if keyword and "*" not in shown else []
        kind = spelled(each.annotation) if keyword else "ArrayLike | None" if each.default is None else "ArrayLike"
        shown.append(f"{name}: {kind}" + ("" if each.default is kinds.empty else " = ..."))
    return ", ".join(shown)


def camel(unit: AnyUnit) -> str:
    """`_OliveMac` for olive_mac."""
    return "_" + "".join(part.capitalize() for part in unit.name.split("_"))


def spelled(annotation: Any) -> str:
    """A type as a stub writes it, with the module of each class in front of its name."""
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(map(spelled, get_args(annotation)))
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)


def modules_in(body: str) -> list[str]:
    """The modules of refemu whose classes a stub names."""
    return sorted(set(re.findall(r"\b(refemu(?:\.[a-z_0-9]+)+)\.[A-Z]", body)))


if __name__ == "__main__":
    PLACE.write_text(text())
