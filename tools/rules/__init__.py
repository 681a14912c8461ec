"""Style rules, checked by `make lint`: imports, constructs that decide bits, names, docstrings, pages.

A rule is a function of the house in one of the modules here, registered by `@rule` or `@module_rule`.
"""

import gc
from typing import NamedTuple

from tools.rules import bits, imports, names, pages, public, sums  # noqa: F401  # each registers its rules
from tools.rules.exceptions import EXCEPTIONS
from tools.rules.house import RULES, House

__all__ = ["EXCEPTIONS", "RULES", "House", "Violation", "violations"]


class Violation(NamedTuple):
    """A broken rule in a line of a file."""

    path: str
    line: int
    rule: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}; {self.fix}"


def violations(house: House) -> list[Violation]:
    """Violations, and in the repository itself exceptions that nothing needs."""
    gc.disable()  # each collection would visit a million permanent nodes
    places = [
        Violation(path, line, rule.name, what, rule.fix)
        for rule in RULES.values()
        for path, line, what in rule.check(house)
    ]
    gc.freeze()
    gc.enable()
    needed = {(each.path.removeprefix("refemu/"), each.what) for each in places} & EXCEPTIONS.keys()
    unneeded = EXCEPTIONS.keys() - needed if house.root else ()
    places = [each for each in places if (each.path.removeprefix("refemu/"), each.what) not in needed]
    texts = [f"nothing needs the exception of {what} in {path}" for path, what in unneeded]
    return sorted(
        {*places, *(Violation("tools/rules/exceptions.py", 1, "exception", text, "delete it") for text in texts)}
    )
