"""Decisions of docs/decisions-*.md: text, test, variants, and the rows that detect these.

A plug-in has its decisions in the same form in a file decisions.md of its package.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refemu import plugins
from refemu.arith.checks import Refused
from refemu.golden.pages.packaged_text import pages

ID = re.compile(r"D-[a-z]+-\d{1,6}")
_ENTRY = re.compile(r"^### (D-[a-z]+-\d+) ([^\n]+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_PIN = re.compile(r"\n*^Pinned by `([^`]+)`\.$", re.MULTILINE)
_UNIT = re.compile(r"^### (\w+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (D-[a-z]+-\d+) \| (.*) \| ([a-z0-9_-]+) \| (\d+) \|$", re.MULTILINE)
_REASON = re.compile(r"^(D-[a-z]+-\d+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Other:
    """A variant of a decision, and the rows that detect it."""

    unit: str  #: name of a unit that takes the decision
    says: str  #: what a device with the variant does
    set: str  #: committed set in which most rows detect it
    rows: int  #: number of those rows


@dataclass(frozen=True)
class Decision:
    """An entry of docs/decisions-*.md."""

    id: str  #: "D-olive-19"
    title: str
    text: str  #: Markdown
    test: str  #: test that fails if the decision changes: "tests/....py::test_..."
    variants: tuple[Other, ...]  #: variants in every unit
    unobservable: dict[str, str]  #: unit -> why no variant can be detected there
    origin: str = ""  #: distribution of the decision; "" = refemu's own

    @property
    def key(self) -> str:
        """The unique name: "D-olive-19"; for a plug-in "distribution/id"."""
        return f"{self.origin}/{self.id}" if self.origin else self.id


def find(id: str) -> Decision:
    """A decision by its id, or for a plug-in also "distribution/id".

    Refused: an unknown id, with the nearest; an id of several distributions.
    """
    if id in every():
        return every()[id]
    same = [each for each in plugged() if id in (each.id, each.key)]
    if len(same) > 1:
        raise Refused(
            f"decision {id!r}: several distributions have it, give one of {', '.join(each.key for each in same)}"
        )
    if same:
        return same[0]
    near = difflib.get_close_matches(id, [*every(), *(each.id for each in plugged())], n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise Refused(f"unknown decision {id!r}; {hint}`refemu explain UNIT` lists those of a unit")


@cache
def every() -> dict[str, Decision]:
    """All decisions by id, in the order of the pages."""
    others = pages("variants-")
    return {id: _decision(id, title, body, others) for id, title, body in _ENTRY.findall(pages("decisions-"))}


def of_unit(key: str, id: str) -> Decision | None:
    """The decision with an id, from a unit's distribution or refemu; None if it has no entry.

    key: of the unit, "orizuru", "refemu-mx/mx_encoder".
    """
    distribution, slash, _ = key.rpartition("/")
    entries = [each for each in plugged() if each.key == f"{distribution}/{id}"] if slash else []
    return entries[0] if entries else every().get(id)


def is_known(id: str) -> bool:
    """Whether `find` finds one or several decisions."""
    return id in every() or any(id in (each.id, each.key) for each in plugged())


def plugged() -> tuple[Decision, ...]:
    """Decisions of installed distributions, in the order of their pages."""
    return tuple(each for name, folders in plugins.packages().items() for each in _of_distribution(name, folders))


@cache
def _of_distribution(name: str, folders: tuple[Path, ...]) -> tuple[Decision, ...]:
    texts = [(folder / "decisions.md").read_text("utf-8") for folder in folders if (folder / "decisions.md").is_file()]
    entries = [entry for text in texts for entry in _ENTRY.findall(text)]
    return tuple(Decision(id, title, _text(body), _test(body), (), {}, name) for id, title, body in entries)


def _text(body: str) -> str:
    return _PIN.sub("", body).strip()


def _test(body: str) -> str:
    pin = _PIN.search(body)
    return pin[1] if pin else ""


def _decision(id: str, title: str, body: str, others: str) -> Decision:
    if not _test(body):
        raise Refused(f"{id}: names no test")
    tables = [(unit, rows) for unit, rows in _UNIT.findall(others)]
    variants = tuple(each for unit, rows in tables for each in _others(id, unit, rows))
    reasons = {unit: reason for unit, rows in tables for other, reason in _REASON.findall(rows) if other == id}
    return Decision(id, title, _text(body), _test(body), variants, reasons)


def _others(id: str, unit: str, rows: str) -> Iterator[Other]:
    for decision, says, name, count in _ROW.findall(rows):
        if decision == id:
            yield Other(unit, says.replace("\\|", "|"), name, int(count))
