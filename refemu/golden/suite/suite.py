"""A set as JSON: a test a line, so that C and SystemVerilog read it with `sscanf`, and files of a whole suite."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import refemu
from refemu.arith.checks import Refused
from refemu.golden.files import case_ids, fields, hexfile, sets, store
from refemu.golden.files.sets import Golden

SCHEMA = "refemu.suite/1"
RUNNERS = ("run.c", "run.py.txt", "run.sv")
OPEN = "UNSPECIFIED"  #: flag of rows of which the paper leaves an output open, in units that have it
HEADER = (
    "Words are hexadecimal bit patterns; `ports` places each lane of a port in them, least significant bit first.",
    "A test with first 1 begins with reset registers; a unit without registers ignores it.",
    "Bits of `out` count where `care` has a 1.",
    "acceptable: the paper leaves an output of this test open; `out` follows the decision that group or flags name.",
    "valid: all other tests; they too follow refemu's documented decisions.",
)


def write(out: Path, folders: Sequence[str]) -> tuple[int, int]:
    """Write sets, or those in folders, as a suite with schema, runners, checksums; return numbers of sets and tests.

    Refused: a folder is not a set and has none; two sets have one name.
    """
    files = {name.removesuffix(".txt"): _packaged(f"texts/{name}") for name in RUNNERS}
    files["schema.json"] = _packaged("schema/suite-1.json")
    number, tests = 0, 0
    for folder in (place for each in folders for place in _sets(Path(each))):
        golden = sets.load(folder)
        name = f"{golden.name}.json"
        if name in files:
            raise Refused(f"{folder}: another folder of the suite is a set {golden.name} too; leave one out")
        files[name] = "".join(lines(golden)).encode()
        number, tests = number + 1, tests + golden.rows
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    out.mkdir(parents=True, exist_ok=True)
    store.write_files({out / name: data for name, data in {**files, "SHA256SUMS": sums.encode()}.items()})
    return number, tests


def _sets(folder: Path) -> list[Path]:
    """The folder if it is a set, else its sets."""
    inside = sorted(path.parent for path in folder.glob(f"*/{sets.MANIFEST}"))
    return inside if inside and not (folder / sets.MANIFEST).exists() else [folder]


def lines(golden: Golden) -> Iterator[str]:
    """The JSON document of a set, in lines."""
    manifest = golden.manifest
    layouts = {role: _layout(manifest, role) for role in ("stimulus", "expected")}
    head = {
        "schema": SCHEMA,
        "generator": f"refemu {refemu.__version__}",
        "algorithm": manifest["unit"],
        "source": manifest["paper"],
        "set": golden.name,
        "sha256": manifest["self_sha256"],
        "config": manifest["config"],
        "numberOfTests": golden.rows,
        "header": HEADER,
        "bits": {"in": hexfile.width(layouts["stimulus"]), "out": hexfile.width(layouts["expected"])},
        "ports": {"in": _ports(manifest, layouts["stimulus"]), "out": _ports(manifest, layouts["expected"])},
        "notes": {name: flag["why"] for name, flag in manifest["flags"].items()},
    }
    yield "{\n"
    yield from (f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    yield '"testGroups": [\n'
    tests, last = _tests(golden, layouts), len(manifest["cases"]) - 1
    for number, entry in enumerate(manifest["cases"]):
        group = {"type": entry["kind"], "id": entry["id"], "comment": entry["why"], "decision": entry.get("decision")}
        yield f'{json.dumps(group)[:-1]}, "tests": [\n'
        count = entry["cases"] * entry["rows"]
        yield from (f"{json.dumps(next(tests))}{',' if row < count - 1 else ''}\n" for row in range(count))
        yield f"]}}{',' if number < last else ''}\n"
    yield "]\n}\n"


def _tests(golden: Golden, layouts: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """A test a row."""
    arrays = golden.arrays
    expected = [entry for entry in golden.manifest["arrays"] if entry["role"] == "expected"]
    ones = {entry["name"]: np.full_like(arrays[entry["name"]], fields.mask_of(entry["bits"])) for entry in expected}
    care = hexfile.care(expected, arrays) or ones
    words = [_words(layouts[role], of) for role, of in (("stimulus", arrays), ("expected", arrays), ("expected", care))]
    event = golden.manifest["timing"] == "event"
    bits, marks = {name: item["bit"] for name, item in golden.manifest["flags"].items()}, arrays["flags"].tolist()
    for id, entry, rows in case_ids.of_cases(golden.manifest):
        for row in range(rows.start, rows.stop):
            flags = [name for name, bit in bits.items() if marks[row] >> bit & 1]
            yield {
                "tcId": row + 1,
                "first": int(row == rows.start or not event),
                **dict(zip(("in", "out", "care"), map(next, words), strict=True)),
                "result": "acceptable" if "decision" in entry or OPEN in flags else "valid",
                "flags": flags,
                "case": id,
            }


def _words(layout: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    for chunk in hexfile.lines(layout, arrays):
        yield from chunk.decode().split()


def _layout(manifest: Mapping[str, Any], role: str) -> list[dict[str, Any]]:
    return hexfile.layout([entry for entry in manifest["arrays"] if entry["role"] == role])


def _ports(manifest: Mapping[str, Any], layout: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lanes of ports in a word, with how a port is encoded and what it means at its first lane."""
    entries = {entry["name"]: entry for entry in manifest["arrays"]}
    ports = []
    for field in layout:
        port = {**field, "name": field["name"].partition(".")[2]}
        if field["lane"] == 0:
            port |= {key: entries[field["name"]][key] for key in ("encoding", "meaning")}
        ports.append(port)
    return ports


def _packaged(name: str) -> bytes:
    return resources.files("refemu.golden.suite").joinpath(name).read_bytes()
