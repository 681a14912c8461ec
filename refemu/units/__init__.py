"""What a hardware block does: one module per block, found by name. Knows no model."""

import importlib
import pkgutil
from functools import cache

from refemu.arith.checks import lookup
from refemu.units.unit import Unit


@cache
def names() -> tuple[str, ...]:
    """Every unit, in alphabetical order: the modules here that are neither twins, cases nor parts of others."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in modules if name != "unit" and not name.endswith(("_jit", "_cases", "_parts"))))


def find(name: str) -> Unit:
    """The descriptor of unit `name`; an unknown name is refused with the nearest known one."""
    known = lookup("unit", name, {unit: unit for unit in names()})
    return importlib.import_module(f"refemu.units.{known}").UNIT
