"""The page on validation: tests against programs of other people, and units without such tests."""

import ast
import re
from pathlib import Path

from refemu import units
from refemu.golden.pages.decisions import every
from tools.site.text import code, link, prose, table

ROOT = Path(__file__).resolve().parents[2]

HEAD = """# What is validated by what

Every unit has three implementations: a readable one, a compiled one, and an oracle in the tests that shares no code
with either. They agree in every bit. But all three follow the same paper, so a misreading could be in all of them.
This page lists further evidence.

## Compared with programs of other people

These tests compare with outputs of other programs (`make conformance`;
[how to generate the outputs](claims.md#reference-data-of-other-programs)).

"""

OPEN = """
## Not validated from outside

No other program is known that computes these units. There is no hardware of these papers to measure, and the
authors published code only for OliVe's format and for LeanKV's kernels. These units rest on the paper, on {count}
documented decisions with their variants, and on the agreement of three implementations.

"""


def page() -> str:
    """Format the page from tests/conformance and the registry of units."""
    tests = {path: path.read_text() for path in sorted((ROOT / "tests" / "conformance").glob("test_*.py"))}
    rows: list[list[object]] = [[prose(_first(text)), code(path.relative_to(ROOT))] for path, text in tests.items()]
    compared = {
        name: [path.name for path, text in tests.items() if re.search(rf"\b{name}\b", text)] for name in units.names()
    }
    beside: list[list[object]] = [
        [link(name), ", ".join(map(code, files))] for name, files in compared.items() if files
    ]
    alone = ", ".join(link(name) for name, files in compared.items() if not files)
    lists = f"{table(['test', 'file'], rows)}Units in these tests:\n\n{table(['unit', 'tests'], beside)}"
    return f"{HEAD}{lists}{OPEN.format(count=len(every()))}{alone}\n"


def _first(text: str) -> str:
    return " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split("\n")[0].split())
