"""Terms of the field and of refemu, from docs/glossary.md."""

import re
from dataclasses import dataclass
from functools import cache

from refemu.golden.pages.packaged_text import page

_ENTRY = re.compile(r"^### ([^\n]+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_ALSO = re.compile(r"^Also: (.+)\.$", re.MULTILINE)
_SEE = re.compile(r"^See: (.+)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """An entry of docs/glossary.md."""

    name: str
    also: tuple[str, ...]  #: synonyms
    text: str  #: Markdown
    see: tuple[str, ...]  #: related words of `refemu explain`


@cache
def every() -> dict[str, Term]:
    """Every term by name, in the order of the page."""
    return {name: _term(name, body) for name, body in _ENTRY.findall(page("glossary.md"))}


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
