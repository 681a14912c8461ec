"""Rules for the arrays that a manifest lists, on which a reader relies before it opens the vectors."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from refemu.golden.files import fields

_NAMES = {
    "stimulus": r"in\.[a-z][a-z0-9_]*",
    "expected": r"out\.[a-z][a-z0-9_]*",
    "state": r"st\.[a-z][a-z0-9_]*",
    "mask": r"(out|st)\.[a-z][a-z0-9_]*\.care",
    "flags": "flags",
}  # by role
_FLAG_BITS = 32
_FLOAT_BITS = {"f16": 16, "f32": 32}


def faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults in the arrays of a manifest that follows the schema."""
    entries = {entry["name"]: entry for entry in manifest["arrays"]}
    if len(entries) < len(manifest["arrays"]):
        yield "an array is listed twice"
    for role in ("stimulus", "expected", "flags"):
        if all(entry["role"] != role for entry in entries.values()):
            yield f"no array of role {role}"
    for name, entry in entries.items():
        yield from (f"{name}: {what}" for what in _of_entry(entry, entries, manifest["rows"]))


def _of_entry(entry: Mapping[str, Any], entries: Mapping[str, Any], rows: int) -> Iterator[str]:
    role, bits, lanes = entry["role"], entry["bits"], entry["lanes"]
    if not re.fullmatch(_NAMES[role], entry["name"]):
        yield f"is no name of an array of role {role}"
    shape = [rows, lanes] if lanes > 1 else [rows]
    if entry["shape"] != shape:
        yield f"shape must be {shape} for {rows} rows and {lanes} lanes, got {entry['shape']}"
    dtype = fields.dtype_of(bits).str[1:]
    if entry["dtype"] != dtype:
        yield f"dtype must be {dtype} for {bits} bits, got {entry['dtype']}"
    if bits != (due := _FLOAT_BITS.get(entry["encoding"], bits)):
        yield f"encoding {entry['encoding']} has {due} bits, got {bits}"
    if role == "flags" and bits != _FLAG_BITS:
        yield f"flags have {_FLAG_BITS} bits, got {bits}"
    if role == "mask":
        masked = entries.get(entry["name"].removesuffix(".care"))
        if masked is None or (masked["bits"], masked["lanes"]) != (bits, lanes):
            yield "is no mask of an array with as many bits and lanes"
