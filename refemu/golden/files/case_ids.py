"""Ids of cases, stable when other cases are added or removed: `edge/ties-of-either-sign/3`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import DIGITS

WORDS = 6  #: words of a reason in an id
_ASIDE = re.compile(r"\[[^\]]*\]|\([^)]*\)|'s\b")  #: citations, parentheses
_CLAUSE = re.compile(r"[,.;:]\s")


def of_blocks(blocks: Iterable[tuple[str, str]]) -> list[str]:
    """Ids of blocks of cases from kinds and reasons: the first words of a reason, with numbers if two are equal."""
    ids: list[str] = []
    for kind, why in blocks:
        plain = f"{kind}/{_words(why)}"
        names = (plain, *(f"{plain}-{number}" for number in range(2, len(ids) + 2)))
        ids.append(next(name for name in names if name not in ids))
    return ids


def _words(why: str) -> str:
    text = _ASIDE.sub(" ", why.lower())
    clause = next((part for part in _CLAUSE.split(text) if re.search("[a-z0-9]", part)), "case")
    return "-".join(re.findall("[a-z0-9]+", clause)[:WORDS]) or "case"


def blocks(manifest: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The entries of a manifest's cases with their ids."""
    return [(entry["id"], entry) for entry in manifest["cases"]]


def of_cases(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], slice]]:
    """Id, entry and rows of every case of a manifest."""
    for id, entry in blocks(manifest):
        for number in range(entry["cases"]):
            first = entry["first"] + number * entry["rows"]
            yield f"{id}/{number}", entry, slice(first, first + entry["rows"])


def row_of(manifest: Mapping[str, Any], id: str) -> int:
    """First row of the case named by `id`: its id, or the number of its first row.

    Refused: no such case, with the nearest.
    """
    if id.isascii() and id.isdecimal() and len(id) <= DIGITS:
        return int(id)
    block, _, number = id.rpartition("/")
    thing = manifest["name"]
    entry = lookup(f"case of {thing}", block, dict(blocks(manifest)))
    if not (number.isascii() and number.isdecimal() and len(number) <= DIGITS and int(number) < entry["cases"]):
        raise Refused(f"{thing}: {block} has cases 0 to {entry['cases'] - 1}, got {number!r}")
    return int(entry["first"] + int(number) * entry["rows"])


def id_of(manifest: Mapping[str, Any], row: int) -> str:
    """Id of the case that holds a row."""
    id, entry = next((id, entry) for id, entry in reversed(blocks(manifest)) if entry["first"] <= row)
    return f"{id}/{(row - entry['first']) // entry['rows']}"
