"""Sets and devices' answers in text forms of other harnesses: TestFloat lines, CSV, JSON lines.

`testfloat`: one row a line, hex words separated by spaces: stimulus, expected outputs, flags; lanes in order.
`csv`: a header, one column per port and lane (`out.exponent.1`), decimal. `jsonl`: one object per row.
All values are unsigned bit patterns. An answer needs only the columns of the outputs; if it repeats the stimulus, that
must be the set's.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import integer, reading
from refemu.golden.files import fields
from refemu.golden.files.sets import Golden

FORMS = ("testfloat", "csv", "jsonl")
_ROLES = {"stimulus": "in", "expected": "out", "state": "st"}


class Column(NamedTuple):
    """One lane of an array."""

    array: str  #: `out.exponent`
    lane: int  #: -1 where the array has one lane
    bits: int

    @property
    def name(self) -> str:
        """`out.pair`; `out.exponent.0` of several lanes."""
        return self.array if self.lane < 0 else f"{self.array}.{self.lane}"


def columns(golden: Golden, roles: Sequence[str] = tuple(_ROLES)) -> list[Column]:
    """The lanes of all arrays in these roles, in the order of the manifest."""
    chosen = []
    for entry in golden.manifest["arrays"]:
        if entry["role"] in roles:
            lanes = range(entry["lanes"]) if entry["lanes"] > 1 else (-1,)
            chosen += [Column(entry["name"], lane, entry["bits"]) for lane in lanes]
    return chosen


def export(golden: Golden, form: str) -> Iterator[str]:
    """The lines of a set with their newlines. form: one of FORMS."""
    return {"testfloat": _testfloat, "csv": _csv, "jsonl": _jsonl}[form](golden)


def _values(golden: Golden, chosen: Sequence[Column]) -> list[list[int]]:
    """One list of Python ints per column."""
    arrays = [golden.arrays[column.array] for column in chosen]
    return [
        (array if column.lane < 0 else array[:, column.lane]).tolist()
        for column, array in zip(chosen, arrays, strict=True)
    ]


def _testfloat(golden: Golden) -> Iterator[str]:
    chosen = columns(golden, ("stimulus", "expected"))
    digits = [-(-column.bits // 4) for column in chosen]
    flags = golden.arrays["flags"].tolist()
    for row, flag in zip(zip(*_values(golden, chosen), strict=True), flags, strict=True):
        yield " ".join(f"{code:0{width}X}" for code, width in zip(row, digits, strict=True)) + f" {flag:02X}\n"


def _csv(golden: Golden) -> Iterator[str]:
    chosen = columns(golden)
    yield ",".join(["case", *(column.name for column in chosen), "flags"]) + "\n"
    cases, flags = _cases(golden), golden.arrays["flags"].tolist()
    for case, row, flag in zip(cases, zip(*_values(golden, chosen), strict=True), flags, strict=True):
        yield ",".join(map(str, (case, *row, flag))) + "\n"


def _jsonl(golden: Golden) -> Iterator[str]:
    entries = [entry for entry in golden.manifest["arrays"] if entry["role"] in _ROLES]
    names = [(_ROLES[entry["role"]], entry["name"].partition(".")[2]) for entry in entries]
    arrays = [golden.arrays[entry["name"]].tolist() for entry in entries]
    bits = {flag: item["bit"] for flag, item in golden.manifest["flags"].items()}
    flags = golden.arrays["flags"].tolist()
    for number, (case, row) in enumerate(zip(_cases(golden), zip(*arrays, strict=True), strict=True)):
        record: dict[str, Any] = {"row": number, "case": case}
        for (group, port), value in zip(names, row, strict=True):
            record.setdefault(group, {})[port] = value
        record["flags"] = [flag for flag, bit in bits.items() if flags[number] >> bit & 1]
        yield json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n"


def _cases(golden: Golden) -> list[int]:
    """The id of the case of every row."""
    firsts: list[int] = []
    for entry in golden.manifest["cases"]:
        starts = np.arange(entry["cases"]) * entry["rows"] + entry["first"]
        firsts += np.repeat(starts, entry["rows"]).tolist()
    return firsts


def recognised(data: bytes, suffix: str) -> str:
    """The form of an answer, "" if not in FORMS. suffix: of its file, such as ".csv"."""
    if suffix in (".csv", ".jsonl"):
        return suffix[1:]
    first = data.partition(b"\n")[0].strip()
    return "testfloat" if first[:2] != b"//" and len(first.split()) > 1 else ""


def read(data: bytes, form: str, golden: Golden, thing: str) -> dict[str, np.ndarray]:
    """Arrays `out.*` (and `st.*`, if present) of an answer, by the set's names.

    Refused: unreadable lines, a wrong number of rows, a different stimulus, or values beyond a port.
    """
    parse: Mapping[str, Callable[..., list[dict[str, int]]]]
    parse = {"testfloat": _read_testfloat, "csv": _read_csv, "jsonl": _read_jsonl}
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise Refused(f"{thing}: is not ASCII text of form {form}") from None
    with reading(thing, f"a text of form {form}"):
        rows = parse[form](text, golden, thing)
    if len(rows) != golden.rows:
        raise Refused(f"{thing}: has {len(rows)} rows, {golden.name} has {golden.rows}")
    every = columns(golden)
    present = [column for column in every if rows and column.name in rows[0]]
    arrays = {column.array for column in present}
    for column in every:
        if column.array in arrays and column not in present:
            raise Refused(f"{thing}: {column.array} lacks its lane {column.lane}")
    values: dict[str, list[np.ndarray]] = {}
    for column in present:
        values.setdefault(column.array, []).append(_column(column, rows, thing))
    return _checked(
        {name: lanes[0] if len(lanes) == 1 else np.stack(lanes, axis=1) for name, lanes in values.items()},
        golden,
        thing,
    )


def _column(column: Column, rows: Sequence[Mapping[str, int]], thing: str) -> np.ndarray:
    for number, row in enumerate(rows):
        if column.name not in row:
            raise Refused(f"{thing}: row {number} has no {column.name}")
        if not 0 <= row[column.name] <= fields.mask_of(column.bits):
            raise Refused(
                f"{thing}: {column.name} in row {number} must be in [0, {fields.mask_of(column.bits)}], "
                f"got {row[column.name]}"
            )
    return np.array([row[column.name] for row in rows], fields.dtype_of(column.bits))


def _checked(arrays: Mapping[str, np.ndarray], golden: Golden, thing: str) -> dict[str, np.ndarray]:
    """The answers among `arrays`, after a check of the stimulus."""
    for name, array in arrays.items():
        if name.startswith("in.") and not np.array_equal(array, golden.arrays[name]):
            unlike = (array != golden.arrays[name]).reshape(golden.rows, -1).any(axis=1)
            raise Refused(f"{thing}: its stimulus {name} differs from {golden.name}'s from row {int(unlike.argmax())}")
    return {name: array for name, array in arrays.items() if not name.startswith("in.")}


def _read_testfloat(text: str, golden: Golden, thing: str) -> list[dict[str, int]]:
    chosen = [column.name for column in columns(golden, ("stimulus", "expected"))]
    rows: list[dict[str, int]] = []
    needed: tuple[int, ...] = (len(chosen), len(chosen) + 1)
    for number, line in enumerate(filter(str.strip, text.splitlines())):
        words = line.split()
        needed = needed if rows else tuple(count for count in needed if count == len(words))
        if len(words) not in needed:
            raise Refused(f"{thing}: row {number} has {len(words)} words; {', '.join(chosen)} and flags are needed")
        rows.append(dict(zip(chosen, (_integer(word, 16, number, thing) for word in words), strict=False)))
    return rows


def _read_csv(text: str, golden: Golden, thing: str) -> list[dict[str, int]]:
    known = {column.name for column in columns(golden)}
    rows = []
    for number, row in enumerate(csv.DictReader(io.StringIO(text))):
        if None in row or None in row.values():
            raise Refused(f"{thing}: row {number} has more or fewer columns than the header")
        rows.append({name: _integer(word, 0, number, thing) for name, word in row.items() if name in known})
    return rows


def _read_jsonl(text: str, golden: Golden, thing: str) -> list[dict[str, int]]:
    rows = []
    for number, line in enumerate(filter(str.strip, text.splitlines())):
        try:
            row = json.loads(line)
            groups = {group: dict(row[group]) for group in _ROLES.values() if group in row}
        except (ValueError, TypeError):
            raise Refused(f"{thing}: row {number} must be a JSON object with in, out, st, got {line[:60]}") from None
        rows.append(dict(_lanes(groups, number, thing)))
    return rows


def _lanes(groups: Mapping[str, Mapping[str, Any]], number: int, thing: str) -> Iterator[tuple[str, int]]:
    for group, ports in groups.items():
        for port, value in ports.items():
            for at, code in enumerate(value) if isinstance(value, list) else ((-1, value),):
                if type(code) is not int:
                    raise Refused(f"{thing}: {group}.{port} in row {number} must be an integer, got {code!r:.60}")
                yield (f"{group}.{port}" if at < 0 else f"{group}.{port}.{at}"), code


def _integer(word: str, base: int, number: int, thing: str) -> int:
    try:
        return integer(word, base)
    except ValueError:
        raise Refused(f"{thing}: row {number} has {word[:60]!r}, which is not a number") from None
