"""Terms of the field and of refemu, from docs/glossary.md; hypotheses of docs/diagnosis.md, and faults of units."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from refemu.golden.pages.packaged_text import page, pages

_ENTRY = re.compile(r"^### ([^\n]+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_ALSO = re.compile(r"^Also: (.+)\.$", re.MULTILINE)
_SEE = re.compile(r"^See: (.+)\.$", re.MULTILINE)
_HYPOTHESIS = re.compile(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| (.*) \|$", re.MULTILINE)
_UNIT = re.compile(r"^### (\w+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_FAULT = re.compile(r"^\| (F-[a-z]+-\d+) \| (.*) \| [a-z0-9_-]+ \| \d+ \|$", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """An entry of docs/glossary.md, a hypothesis or a fault."""

    name: str
    also: tuple[str, ...]  #: synonyms
    text: str  #: Markdown
    see: tuple[str, ...]  #: related words of `refemu explain`


@cache
def every() -> dict[str, Term]:
    """Every term by name, in the order of the pages."""
    terms = {name: _term(name, body) for name, body in _ENTRY.findall(page("glossary.md"))}
    named = {word.lower(): term.name for term in terms.values() for word in (term.name, *term.also)}
    for each in (*_hypotheses(), *_faults()):
        known = terms.get(named.get(each.name, ""))
        if known is None:
            terms[each.name] = each
        else:
            terms[known.name] = replace(known, text=f"{known.text} {each.text}")
    return terms


def _hypotheses() -> Iterator[Term]:
    for names, says in _HYPOTHESIS.findall(page("diagnosis.md")):
        for name in names.replace("`", "").split(", "):
            yield Term(name, (), f"As a hypothesis of `refemu diff --explain`, `{name}`: the design {says}.", SEE)


def _faults() -> Iterator[Term]:
    for unit, rows in _UNIT.findall(pages("variants-")):
        for id, says in _FAULT.findall(rows):
            text = f"Fault that `refemu grade` injects into {unit} and `refemu diff --explain` names: {says}."
            yield Term(id, (), text, (unit, *SEE))


@cache
def by_word() -> dict[str, Term]:
    """Every term by its names and synonyms in lower case."""
    return {word.lower(): term for term in every().values() for word in (term.name, *term.also)}


def _term(name: str, body: str) -> Term:
    text = _SEE.sub("", _ALSO.sub("", body)).strip()
    return Term(name, _words(_ALSO, body), text, _words(_SEE, body))


def _words(pattern: re.Pattern[str], body: str) -> tuple[str, ...]:
    match = pattern.search(body)
    return tuple(word.strip("` ") for word in match[1].split(",")) if match else ()


SEE = ("diagnosis",)
