"""Paper and edge cases of a set as text, for the review of a changed set."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.golden.files import case_ids

KINDS = ("paper", "edge")
ROWS, WIDE = 2, 64  #: rows of a block before a digest, one if a row has WIDE words or more
WORDS = 3  #: words of a port; a wider one has these and a digest of all


def render(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The text: per block of cases its id and reason, per row the words at inputs, outputs and registers in hex."""
    return "".join(f"{line}\n" for line in _lines(manifest, arrays)).encode("utf-8")


def _lines(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    yield f"{manifest['name']}: paper and edge cases, words in hex, lane 0 first"
    for id, entry in case_ids.blocks(manifest):
        if entry["kind"] not in KINDS:
            continue
        decision = f" ({entry['decision']})" if "decision" in entry else ""
        yield ""
        yield f"{id}: {entry['why']}{decision}"
        yield from _block(manifest, arrays, entry)


def _block(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], entry: Mapping[str, Any]) -> Iterator[str]:
    count = entry["cases"] * entry["rows"]
    shown = min(count, ROWS if _words(arrays) < WIDE else 1)
    for number in range(shown):
        case, event = divmod(number, entry["rows"])
        place = f"{case}.{event}" if entry["rows"] > 1 else f"{case}"
        yield f"  {place:>5}  {_row(manifest, arrays, entry['first'] + number)}"
    if count > shown:
        rows = slice(entry["first"] + shown, entry["first"] + count)
        words = b"".join(np.ascontiguousarray(array[rows]).tobytes() for _, array in sorted(arrays.items()))
        yield f"  ... {count - shown} more rows {hashlib.sha256(words).hexdigest()[:8]}"


def _words(arrays: Mapping[str, np.ndarray]) -> int:
    """Words of a row."""
    count = 0
    for array in arrays.values():
        count += array[:1].size
    return count


def _row(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], row: int) -> str:
    groups = []
    for role in ("stimulus", "expected", "state"):
        names = [entry["name"] for entry in manifest["arrays"] if entry["role"] == role]
        if role == "state" and names and _words(arrays) >= WIDE:
            words = b"".join(arrays[name][row].tobytes() for name in names)
            groups.append(f"{len(names)} registers {hashlib.sha256(words).hexdigest()[:8]}")
            continue
        groups.append("  ".join(f"{name.partition('.')[2]}={_port(manifest, arrays, name, row)}" for name in names))
    flags = int(arrays["flags"][row])
    raised = [name for name, flag in manifest["flags"].items() if flags >> flag["bit"] & 1]
    return "  |  ".join(filter(None, [*groups, " ".join(raised)]))


def _port(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str, row: int) -> str:
    """Words of a port in a row; lanes that do not count are dashes."""
    words = arrays[name][row].reshape(-1)
    mask = arrays.get(f"{name}.care")
    care = words * 0 + 1 if mask is None else mask[row].reshape(-1)
    texts = [f"{int(word):x}" if counts else "-" for word, counts in zip(words, care, strict=True)]
    if len(texts) <= WORDS:
        return ",".join(texts)
    digest = hashlib.sha256(",".join(texts).encode()).hexdigest()[:8]
    return f"{','.join(texts[:WORDS])},..{len(texts)} lanes {digest}"
