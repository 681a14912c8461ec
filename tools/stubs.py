"""Write the stubs of refemu.units: an `__init__.pyi` for each block and one for `find`, with the fields of a Result.

    python -m tools.stubs

A State, a Result and the arguments of `step` and `run` are derived, so no source has them, and `find` chooses by a
string: type checkers need stubs for them. They are not in the repository: installing by tools/bootstrap.py, `make lint`
and building a wheel write them.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import symtable
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from refemu import units
from refemu.units.unit import AnyUnit

PLACE = Path(units.__file__).with_suffix(".pyi")
BLOCK = '''"""{about} Written by tools/stubs.py; do not edit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy
from numpy.typing import ArrayLike

'''
BASES = """from refemu.units.declaration import DeclaredState
from refemu.units.stepping import Result as _Base
from refemu.units.unit import Unit
"""
HEAD = '''"""Hardware blocks by name. Written by tools/stubs.py; do not edit."""

from types import ModuleType
from typing import Literal, overload

'''
COMMON = """from refemu.plugins import Broken
from refemu.units.ports import Lanes as Lanes, Port as Port, Ports as Ports
from refemu.units.stepping import Result as Result, Stepped as Stepped
from refemu.units.unit import Variant as Variant, AnyUnit as AnyUnit, Cases as Cases, Config as Config
from refemu.units.declaration import Changes as Changes, Combinational as Combinational
from refemu.units.declaration import DeclaredState as DeclaredState
from refemu.units.declaration import Sequential as Sequential, constant as constant, decides as decides
from refemu.units.derivation import compiled_run as compiled_run
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


def texts() -> dict[Path, str]:
    """Every stub by its path."""
    every = [units.find(name) for name in units.names()]
    return {PLACE: text(every)} | {
        Path(units.module(unit).__file__ or "").with_suffix(".pyi"): block(unit) for unit in every
    }


def text(every: list[AnyUnit]) -> str:
    """The stub of the package: its public names, the blocks, the overloads of `find`."""
    blocks = "".join(f"from refemu.units.{paper} import {name} as {name}\n" for name, paper in units.PAPERS.items())
    finds = "".join(
        f'@overload\ndef find(name: Literal["{unit.name}"]) -> {unit.name}.Descriptor: ...\n' for unit in every
    )
    other = "@overload\ndef find(name: str | AnyUnit) -> AnyUnit: ...\n"
    return f"{HEAD}{COMMON}{blocks}\n__all__ = {units.__all__!r}\n\n{finds}{other}{OTHERS}"


def block(unit: AnyUnit) -> str:
    """The stub of a block: its exports, State, class, Result, `run` and descriptor."""
    home, device = units.module(unit), unit.unit_class
    made = {"State", "Run", "Descriptor", "run", "UNIT", device.__name__, *["Result"][: is_derived(unit)]}
    lines = [
        f"from {place} import {name} as {name}" for name, place in exported(home.__name__).items() if name not in made
    ]
    lines += [
        f"from {device.__module__} import {device.__name__} as _{device.__name__}",
        "",
        f"__all__ = {home.__all__!r}",
    ]
    body = "\n".join([*lines, "", *classes(unit), "run: Run", "UNIT: Descriptor", ""])
    modules = "".join(f"import {module}\n" for module in modules_in(body))
    return BLOCK.format(about=(home.__doc__ or "").splitlines()[0]) + modules + BASES + body


def exported(package: str) -> dict[str, str]:
    """Names exported by the `__init__` of a block, with their modules."""
    module = importlib.import_module(package)
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [each.name for each in node.names]
            found |= dict.fromkeys(own(node.module) if "*" in names else names, node.module)
    return {name: place for name, place in found.items() if name in module.__all__}


def own(place: str) -> list[str]:
    """Names that `from place import *` exports: those of `__all__`, else those that the module does not import."""
    module = importlib.import_module(place)
    symbols = symtable.symtable(inspect.getsource(module), place, "exec").get_symbols()
    here = [each.get_name() for each in symbols if each.is_assigned() or each.is_namespace()]
    return list(getattr(module, "__all__", here))


def is_derived(unit: AnyUnit) -> bool:
    """Whether the class of a unit's Result is derived."""
    return hasattr(unit.result, "derived")


def classes(unit: AnyUnit) -> list[str]:
    """State, class with the arguments of `step`, Result, call of `run` and descriptor of a unit."""
    name, state = unit.unit_class.__name__, unit.unit_class.State  # type: ignore[attr-defined]
    kinds = {field.name: spelled(field.type) for field in dataclasses.fields(state)}
    result = ["@dataclass(frozen=True, eq=False, kw_only=True)", "class Result(_Base):"]
    result += [f"    {field.name}: {spelled(field.type)}" for field in dataclasses.fields(unit.result)]
    other = any(
        "State" in vars(base) for base in unit.unit_class.__mro__[1:]
    )  # of the unit of which this one is a form
    differs = "  # type: ignore[override]" if other else ""
    return [
        "class State(DeclaredState):",
        *(f"    {field}: {kind}" for field, kind in kinds.items()),
        "",
        f"class {name}(_{name}):",
        f"    def step(self, {stepped(unit, kinds)}) -> State: ...{differs}",
        f"    def snapshot(self) -> State: ...{differs}",
        "",
        *(result if is_derived(unit) else [f"from {unit.result.__module__} import Result as Result"]),
        "",
        "class Run(Protocol):",
        f"    def __call__({arguments(unit)}) -> Result: ...",
        "",
        "class Descriptor(Unit[DeclaredState, Result]):",
        "    run: Run",
        f"    unit_class: type[{name}]",
        "    @cached_property",
        "    def run_compiled(self) -> Run: ...",
        "",
    ]


def stepped(unit: AnyUnit, kinds: Mapping[str, str]) -> str:
    """The arguments of a unit's `step`. kinds: types of the fields of its State."""
    taken = list(inspect.signature(unit.unit_class.step).parameters.values())[1:]  # type: ignore[attr-defined]
    given = {each.name: kinds[each.name].replace("tuple[int, ...]", "Sequence[int] | numpy.ndarray") for each in taken}
    return ", ".join(f"{each.name}: {given[each.name]}" + " | None = ..." * (each.default is None) for each in taken)


def arguments(unit: AnyUnit) -> str:
    """The arguments of a unit's `run`: inputs are anything that becomes an array, parameters are the constructor's."""
    kinds = inspect.Parameter
    shown = ["self"]
    for name, each in inspect.signature(unit.run).parameters.items():
        keyword = each.kind is kinds.KEYWORD_ONLY
        shown += ["*"] if keyword and "*" not in shown else []
        kind = spelled(each.annotation) if keyword else "ArrayLike | None" if each.default is None else "ArrayLike"
        shown.append(f"{name}: {kind}" + ("" if each.default is kinds.empty else " = ..."))
    return ", ".join(shown)


def spelled(annotation: Any) -> str:
    """A type as in a stub, with the module before the name of each class."""
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(map(spelled, get_args(annotation)))
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)


def modules_in(body: str) -> list[str]:
    """The modules of refemu whose classes a stub names."""
    return sorted(set(re.findall(r"\b(refemu(?:\.[a-z_0-9]+)+)\.[A-Z]", body)))


if __name__ == "__main__":
    for place, content in texts().items():
        place.write_text(content)
