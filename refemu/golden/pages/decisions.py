"""Decisions as docs/decisions.md states them: the text, the test that pins it, other answers and where these show."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from refemu.arith.checks import Refused
from refemu.golden.pages.reading import page

ID = re.compile(r"D-[a-z]+-\d{1,6}")
_ENTRY = re.compile(r"^### (D-[a-z]+-\d+) ([^\n]+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_PIN = re.compile(r"\n*^Pinned by `([^`]+)`\.$", re.MULTILINE)
_UNIT = re.compile(r"^### (\w+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (D-[a-z]+-\d+) \| (.*) \| ([a-z0-9_-]+) \| (\d+) \|$", re.MULTILINE)
_REASON = re.compile(r"^(D-[a-z]+-\d+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Other:
    """Another answer to a decision, and where it is told."""

    unit: str  #: name of a unit that takes the decision
    says: str  #: what a device with the other answer does
    set: str  #: committed set in which most rows tell it
    rows: int  #: rows of it that do


@dataclass(frozen=True)
class Decision:
    """An entry of docs/decisions.md."""

    id: str  #: "D-olive-19"
    title: str
    text: str  #: Markdown
    test: str  #: that fails when the decision changes: "tests/....py::test_..."
    alternatives: tuple[Other, ...]  #: of every unit
    unobservable: dict[str, str]  #: unit -> why no other answer shows there


def find(id: str) -> Decision:
    """A decision by its id. Refused: an unknown one, with the nearest."""
    if id in every():
        return every()[id]
    near = difflib.get_close_matches(id, every(), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise Refused(f"unknown decision {id!r}; {hint}`refemu explain UNIT` lists those of a unit")


@cache
def every() -> dict[str, Decision]:
    """All decisions by id, in the order of the page."""
    others = page("alternatives.md")
    return {id: _decision(id, title, body, others) for id, title, body in _ENTRY.findall(page("decisions.md"))}


def _decision(id: str, title: str, body: str, others: str) -> Decision:
    pin = _PIN.search(body)
    if pin is None:
        raise Refused(f"{id}: names no test")
    tables = [(unit, rows) for unit, rows in _UNIT.findall(others)]
    alternatives = tuple(each for unit, rows in tables for each in _others(id, unit, rows))
    reasons = {unit: reason for unit, rows in tables for other, reason in _REASON.findall(rows) if other == id}
    return Decision(id, title, _PIN.sub("", body).strip(), pin[1], alternatives, reasons)


def _others(id: str, unit: str, rows: str) -> Iterator[Other]:
    for decision, says, name, count in _ROW.findall(rows):
        if decision == id:
            yield Other(unit, says.replace("\\|", "|"), name, int(count))
