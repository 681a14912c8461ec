"""A set as a page: rows by kind and case, a device's answers, and their explanation."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.compare import answer_files, diff_text
from refemu.golden.compare import diff as diffs
from refemu.golden.files import case_ids, sets
from refemu.golden.files.sets import Golden
from refemu.golden.pages import decisions
from refemu.golden.view import encode
from refemu.golden.view.page import LIMIT, page
from refemu.golden.view.step_page import codes, port_entry

SPARE = 80_000  #: bytes of a page for styles, script and reasons
ROLES = {"stimulus": "inputs", "expected": "outputs", "state": "state"}


class Written(NamedTuple):
    """A page and its contents."""

    data: bytes
    first: int  #: row
    rows: int
    total: int
    differ: int | None  #: rows of the set that differ; None without answers
    not_compared: tuple[str, ...]  #: arrays of the set that the answers lack


def written(path: str | Path, answers: str | Path | None = None, first: int = 0, last: int | None = None) -> Written:
    """The page of rows [first, last) of a set, as many as fit. answers: a device's file, in a form of `refemu diff`.

    Refused: rows outside the set, a set or answers that cannot be read.
    """
    golden = sets.load(path)
    end = golden.rows if last is None else last
    if not 0 <= first < end <= golden.rows:
        raise Refused(f"view: --rows must be in 0:{golden.rows}, got {first}:{'' if last is None else last}")
    answer = None if answers is None else answer_files.read(answers, golden)
    difference = None if answer is None else diffs.compare(golden, answer, explain_=True)
    wrong = {} if answer is None else diffs.differing(golden, answer)
    columns = _columns(golden, answer)
    count = _fitting(columns, wrong, first, end)
    rows = slice(first, first + count)
    differ = np.zeros(golden.rows, np.bool_)
    for mask in wrong.values():
        differ |= mask.reshape(golden.rows, -1).any(axis=1)
    entries = list(_entries(golden, rows))
    data = {
        "set": golden.name,
        "unit": golden.manifest["unit"],
        "config": golden.config,
        "first": first,
        "rows": count,
        "total": golden.rows,
        "flags": {name: flag["bit"] for name, flag in golden.manifest["flags"].items()},
        "why": {name: flag["why"] for name, flag in golden.manifest["flags"].items()},
        "columns": [entry for entry, _ in columns],
        "stream": encode.text(encode.deflate(_bytes(columns, golden, differ, rows))),
        "cases": entries,
        "codes": codes([sets.port_of(entry) for entry in golden.manifest["arrays"] if entry["role"] in ROLES]),
        "titles": {
            entry["decision"]: _title(golden.manifest["unit"], entry["decision"])
            for entry in entries
            if entry["decision"]
        },
        "answers": "" if answers is None else Path(answers).name,
        "differ": None if difference is None else difference.rows_differ,
        "diagnosis": [] if difference is None else diff_text.lines(difference),
        "firstdiffer": int(np.argmax(differ)) if differ.any() else None,
    }
    number, lacking = (None, ()) if difference is None else (difference.rows_differ, difference.not_compared)
    return Written(
        page("set", f"{golden.name}: rows of a golden set", data), first, count, golden.rows, number, lacking
    )


def _title(unit: str, id: str) -> str:
    known = decisions.of_unit(unit, id)
    return known.title if known else ""


def _columns(golden: Golden, answer: answer_files.Answer | None) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Inputs, outputs and registers, then the bits of outputs that count and a device's answers, as unsigned words."""
    columns = []
    for entry in golden.manifest["arrays"]:
        if entry["role"] not in ROLES:
            continue
        name, port = entry["name"], sets.port_of(entry)
        shown = port_entry(port) | {"group": ROLES[entry["role"]], "lanes": port.count, "array": name}
        columns.append((shown | {"part": "value"}, golden.arrays[name]))
        care = golden.arrays.get(f"{name}.care")
        if care is not None:
            columns.append((shown | {"part": "care"}, care))
        if answer is not None and name in answer.arrays:
            columns.append((shown | {"part": "answer"}, answer.arrays[name]))
            unknown = answer.unknown.get(name)
            if unknown is not None:
                columns.append((shown | {"part": "unknown"}, unknown))
    for shown, array in columns:
        shown["bytes"] = array.dtype.itemsize
    return columns


def _bytes(
    columns: Sequence[tuple[dict[str, Any], np.ndarray]], golden: Golden, differ: np.ndarray, rows: slice
) -> bytes:
    """Flags, marks of rows that differ, then the columns one after another, little-endian, rows in order."""
    parts = [golden.arrays["flags"][rows].astype("<u4").tobytes(), differ[rows].astype(np.uint8).tobytes()]
    for _, array in columns:
        parts.append(np.ascontiguousarray(array[rows].astype(array.dtype.newbyteorder("<"))).tobytes())
    return b"".join(parts)


def _fitting(
    columns: Sequence[tuple[dict[str, Any], np.ndarray]], wrong: Mapping[str, np.ndarray], first: int, end: int
) -> int:
    """Number of rows that fit, halved until their deflated columns do."""
    room, count = (LIMIT - SPARE) * 3 // 4, end - first
    while count:
        packed = [encode.deflate(np.ascontiguousarray(array[first : first + count]).tobytes()) for _, array in columns]
        if len(b"".join(packed)) <= room:
            return count
        count //= 2
    raise Refused(
        f"view: one row must fit into the {LIMIT:,} bytes of a page, got more; use `refemu diff` and cases.txt instead"
    )


def _entries(golden: Golden, rows: slice) -> Iterator[dict[str, Any]]:
    """Blocks of cases that have rows on the page."""
    for id, entry in case_ids.blocks(golden.manifest):
        if entry["first"] < rows.stop and entry["first"] + entry["cases"] * entry["rows"] > rows.start:
            yield {
                "id": id,
                "kind": entry["kind"],
                "why": entry["why"],
                "decision": entry.get("decision", ""),
                "first": entry["first"],
                "cases": entry["cases"],
                "rows": entry["rows"],
            }
