"""A unit imported again with other code in one of its modules; files are unchanged."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType

from refemu import units
from refemu.arith.checks import Refused
from refemu.units.unit import AnyUnit

OTHER = ("__init__", "cases", "compiled", "variants")  #: modules of a block's package outside its readable form


def sources(unit: AnyUnit) -> list[Path]:
    """Files of a readable unit's modules: one, or those of its package."""
    file = _file(units.module(unit))
    files = file.parent.glob("*.py") if file.name == "__init__.py" else [file]
    return sorted(each for each in files if each.stem not in OTHER)


def _file(home: ModuleType) -> Path:
    """The source of a module. Refused: it has none, as in a notebook."""
    if getattr(home, "__file__", None) is None:
        raise Refused(
            f"grade: class model changes sources, but module {home.__name__} has no file; leave out class model"
        )
    return Path(str(home.__file__))


@contextmanager
def mutated(unit: AnyUnit, path: Path, code: CodeType) -> Iterator[AnyUnit]:
    """The descriptor of a unit with other code in one of its modules. All other modules are unchanged."""
    home = units.module(unit)
    attribute = next(name for name, value in vars(home).items() if value is unit)
    name = home.__name__ if path == _file(home) else f"{home.__name__}.{path.stem}"
    loaded = {key: module for key, module in sys.modules.items() if f"{key}.".startswith(f"{home.__name__}.")}
    above, _, last = home.__name__.rpartition(".")  # a module outside a package has no parent
    finder = _Finder(name, path, code)
    for key in loaded:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        yield getattr(importlib.import_module(home.__name__), attribute)
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if f"{key}.".startswith(f"{home.__name__}.")]:
            del sys.modules[key]
        sys.modules.update(loaded)
        if above:
            setattr(sys.modules[above], last, home)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of one module that runs given code as its contents."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of that module, None for any other."""
        if fullname != self.name:
            return None
        package = self.path.name == "__init__.py"
        spec = spec_from_loader(fullname, self, origin=str(self.path), is_package=package)
        if spec is not None and package:
            spec.submodule_search_locations = [str(self.path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the code."""
        exec(self.code, vars(module))
