"""Write docs/api: a page per package, with the public names and one line on each.

    python tools/api.py            # writes the pages
    python tools/api.py --check    # exit code 1 if a page differs from what would be written

Public is what `__all__` of refemu's six packages and of every unit names. The line on a class or function is the first
of its docstring; on any other name it is the comment `#:` at its definition.
"""

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from refemu import arith, units

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs" / "api"
PACKAGES = ("arith", "formats", "units", "draw", "models", "golden", "testing")
FOR_AUTHORS = ("refemu.arith.jit", "refemu.units.stimuli")  #: modules for authors of units, imported by who needs them
NOTE = "Written by tools/api.py from `__all__`; do not edit."


@dataclass(frozen=True)
class Public:
    """A public name, the package that exports it, and the module that defines it."""

    package: str
    name: str
    value: Any
    module: ModuleType

    @property
    def documented(self) -> bool:
        """Whether the docstring of the value is the name's own: true of classes, functions and modules."""
        return inspect.isclass(self.value) or inspect.isroutine(self.value) or inspect.ismodule(self.value)

    @property
    def summary(self) -> str:
        """The first sentence or line on the name, "" where there is none."""
        if self.name == "UNIT":
            return f"Descriptor: {self.value.meaning}."
        if self.documented and getattr(self.value, "__module__", "") != "typing":
            return paragraph(inspect.getdoc(self.value) or "")
        return comments(self.module).get(self.name, "")


def packages() -> list[str]:
    """Name the packages and modules whose `__all__` is public: those of PACKAGES, arith's modules, every unit."""
    modules = [value.__name__ for name in arith.__all__ if inspect.ismodule(value := getattr(arith, name))]
    blocks = [units.module(name).__name__ for name in units.names()]
    return [f"refemu.{name}" for name in PACKAGES] + modules + list(FOR_AUTHORS) + blocks


def public(package: str) -> Iterator[Public]:
    """Yield the public names of a package, in the order of its `__all__`."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        yield Public(package, name, getattr(module, name), home(module, name))


@functools.cache
def home(module: ModuleType, name: str) -> ModuleType:
    """Find the module that defines a name which `module` imports or defines."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            place = f"{module.__name__}.{node.module}" if node.level else node.module
            for alias in node.names:
                if alias.name == "*" and name in vars(importlib.import_module(place)):
                    return home(importlib.import_module(place), name)
                if (alias.asname or alias.name) == name:
                    source = importlib.import_module(place)
                    return source if inspect.ismodule(getattr(source, alias.name)) else home(source, alias.name)
    return module


@functools.cache
def tree(module: ModuleType) -> ast.Module:
    """Parse the source of a module; of a package that imports when asked, its stub."""
    stub = Path(module.__file__ or "").with_suffix(".pyi")
    return ast.parse(stub.read_text() if "attach_stub" in inspect.getsource(module) else inspect.getsource(module))


@functools.cache
def comments(module: ModuleType) -> dict[str, str]:
    """Collect the `#:` comments of a module, by the name that is assigned on or below their line."""
    lines, texts = inspect.getsource(module).splitlines(), {}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            text = comment(lines, node.lineno, node.end_lineno or node.lineno)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            texts |= {name: text for name in named if text}
    return texts


def comment(lines: list[str], first: int, last: int) -> str:
    """The `#:` at the end of a statement, or the lines of `#:` above it."""
    for line in lines[first - 1 : last]:
        if "#: " in line:
            return line.partition("#: ")[2].strip()
    above: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#: "):
            break
        above.insert(0, line.partition("#: ")[2].strip())
    return " ".join(above)


def paragraph(text: str) -> str:
    """Join the lines of the first paragraph."""
    return " ".join(text.split("\n\n")[0].split())


def pages() -> dict[str, str]:
    """Format every page, by file name: the six packages, then the units of each paper."""
    texts = {f"{name}.md": page(f"refemu.{name}") for name in PACKAGES}
    for name in [each for each in packages() if each.startswith("refemu.arith.")] + list(FOR_AUTHORS):
        texts[f"{name.split('.')[1]}.md"] += f"\n{section(name)}"
    for paper in sorted(set(units.PAPERS.values())):
        chosen = [units.module(name).__name__ for name, of in units.PAPERS.items() if of == paper]
        texts[f"units.{paper}.md"] = page(f"refemu.units.{paper}", *chosen)
    return texts


def page(title: str, *modules: str) -> str:
    """Format one page: a table of names for the package, or a section for each of several modules."""
    head = f"# {title}\n\n{NOTE}\n\n"
    return head + ("\n".join(map(section, modules)) if modules else section(title).partition("\n\n")[2])


def section(name: str) -> str:
    """Format a module: its name, the first paragraph on it, its public names."""
    summary = paragraph(importlib.import_module(name).__doc__ or "")
    return f"## {name.rpartition('.')[2]}\n\n{summary}\n\n{table(name)}"


def table(package: str) -> str:
    """Format the public names of a package as a table."""
    rows = [f"| `{each.name}` | {_cell(each.summary)} |\n" for each in public(package)]
    return "".join(["| name | |\n|---|---|\n", *rows])


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def main() -> int:
    texts = pages()
    if "--check" in sys.argv[1:]:
        there = {path.name: path.read_text() for path in PLACE.glob("*.md")}
        return int(there != texts)
    PLACE.mkdir(exist_ok=True)
    for name, text in texts.items():
        (PLACE / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
