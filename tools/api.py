"""Write docs/api: a page per package with its public names, one line each.

    python -m tools.api            # writes the pages
    python -m tools.api --check    # exit code 1 if a page differs from what would be written

Public is what `__all__` of refemu's packages and of every unit names. The line of a class or function is the first
of its docstring; of any other name the comment `#:` at its definition.
"""

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu import arith, units
from refemu.units import comments
from tools.rules.house import House
from tools.rules.public import FOR_AUTHORS, PACKAGES, comment

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs" / "api"
WITH_FIELDS = ("refemu.models", "refemu.studies", "refemu.testing")  #: packages whose signatures and fields are listed
NOTE = "Written by tools/api.py from `__all__`; do not edit."


@dataclass(frozen=True)
class Public:
    """A public name, the package that exports it, and its value."""

    package: str
    name: str
    value: Any

    @property
    def documented(self) -> bool:
        """Whether the docstring of the value belongs to the name: true of classes, functions and modules."""
        return inspect.isclass(self.value) or inspect.isroutine(self.value) or inspect.ismodule(self.value)

    @property
    def call(self) -> str:
        """The name, of a function with its parameters and defaults."""
        if not (inspect.isfunction(self.value) and self.package in WITH_FIELDS):
            return self.name
        signature = inspect.signature(self.value)
        bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
        text = f"{self.name}{signature.replace(parameters=bare, return_annotation=signature.empty)}"
        return re.sub("<function (\\w+) at 0x[0-9a-f]+>", r"\1", text)

    @property
    def summary(self) -> str:
        """The first sentence or line about the name, or ""."""
        if self.name == "UNIT":
            return f"Descriptor: {self.value.meaning}."
        if self.documented and getattr(self.value, "__module__", "") != "typing":
            return paragraph(inspect.getdoc(self.value) or "")
        place = house().definition(house().front(self.package), self.name)
        node = place[1] if place else None
        return comment(place[0].lines, node.lineno, node.end_lineno or 0) if place and node else ""


def packages() -> list[str]:
    """Name the packages and modules whose `__all__` is public: those of PACKAGES, arith's modules, every unit."""
    modules = [value.__name__ for name in arith.__all__ if inspect.ismodule(value := getattr(arith, name))]
    blocks = [units.module(name).__name__ for name in units.names()]
    return [f"refemu.{name}" for name in PACKAGES] + modules + list(FOR_AUTHORS) + blocks


def public(package: str) -> Iterator[Public]:
    """Yield the public names of a package, in the order of its `__all__`."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        yield Public(package, name, getattr(module, name))


@functools.cache
def house() -> House:
    """The repository, for its comments."""
    return House.read(ROOT)


def paragraph(text: str) -> str:
    """Join the lines of the first paragraph."""
    return " ".join(text.split("\n\n")[0].split())


def pages() -> dict[str, str]:
    """Format every page, by file name: the packages, then the units of each paper."""
    texts = {f"{name}.md": page(f"refemu.{name}") for name in PACKAGES}
    texts["arith.md"] += "".join(f"\n{section(name)}" for name in packages() if name.startswith("refemu.arith."))
    texts["units.md"] += f"\n{section('refemu.units.stimuli')}"
    for paper in sorted(set(units.PAPERS.values())):
        chosen = [units.module(name).__name__ for name, of in units.PAPERS.items() if of == paper]
        texts[f"units.{paper}.md"] = page(f"refemu.units.{paper}", *chosen)
    return texts


def page(title: str, *modules: str) -> str:
    """Format one page: a table of names for the package, or a section for each of several modules."""
    head = f"# {title}\n\n{NOTE}\n\n"
    return head + ("\n".join(map(section, modules)) if modules else section(title).partition("\n\n")[2])


def section(name: str) -> str:
    """Format a module: its name, the first paragraph about it, its public names."""
    summary = paragraph(importlib.import_module(name).__doc__ or "")
    return f"## {name.rpartition('.')[2]}\n\n{summary}\n\n{table(name)}"


def table(package: str) -> str:
    """Format the public names of a package as a table."""
    names = list(public(package))
    rows = [f"| `{_cell(each.call)}` | {_cell(each.summary)} |\n" for each in names]
    results = [_fields(each) for each in names if package in WITH_FIELDS and dataclasses.is_dataclass(each.value)]
    return "".join(["| name | |\n|---|---|\n", *rows, *results])


def _fields(each: Public) -> str:
    """Format the fields and properties of a dataclass as a table."""
    meanings = comments.of_class(each.value)
    properties = {
        name: paragraph(inspect.getdoc(value) or "")
        for name, value in vars(each.value).items()
        if isinstance(value, property) and not name.startswith("_")
    }
    rows = [f"| `{name}` | {_cell(text)} |\n" for name, text in {**meanings, **properties}.items()]
    return "".join([f"\n### {each.name}\n\n| field | |\n|---|---|\n", *rows]) if rows else ""


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
