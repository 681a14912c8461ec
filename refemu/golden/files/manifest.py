"""The manifest: canonical JSON, its hashes, and a reader that names every error.

Numbers are integers; a real number is a `float.hex()` string, so that no reader rounds it.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import fields

SCHEMA = "refemu.vectors/1"
RELEASES = ("0.1.0",)  #: versions that a set may name as the last that changed it
_UNHASHED = ("self_sha256", "refemu_version", "distribution_version")
_MARKS = (b'"refemu.vectors/', b'"self_sha256"', b'"min_rows"', b'"refemu_version"', b'"generator"')
_ARRAY_NAMES = {
    "stimulus": r"in\.[a-z][a-z0-9_]*",
    "expected": r"out\.[a-z][a-z0-9_]*",
    "state": r"st\.[a-z][a-z0-9_]*",
    "mask": r"(out|st)\.[a-z][a-z0-9_]*\.care",
    "flags": "flags",
}  #: by role
_FLAG_BITS = 8
_FLOAT_BITS = {"f16": 16, "f32": 32}


class Damaged(Refused):
    """A manifest of refemu that was changed; `check` reports it as a difference."""


def canonical(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest: sorted keys, ASCII, indent 1, LF, final newline."""
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=True, indent=1, separators=(",", ": "), allow_nan=False)
    return text.encode("ascii") + b"\n"


def sha256(data: bytes | memoryview) -> str:
    """Hex digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def array_sha256(array: np.ndarray) -> str:
    """Digest of the C-order little-endian bytes of `array`; dtype and shape are checked separately."""
    return sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())


def self_sha256(manifest: Mapping[str, Any]) -> str:
    """Digest of the canonical manifest without that digest and the versions that made it."""
    return sha256(canonical({name: value for name, value in manifest.items() if name not in _UNHASHED}))


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """`manifest` with its `self_sha256`."""
    return {**manifest, "self_sha256": self_sha256(manifest)}


def plain(value: Any) -> Any:
    """`value` in the types of a manifest: integers, strings, booleans, lists, objects with string keys.

    Floats become `float.hex()`, enums their value, dataclasses objects, None the string "none".
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, str):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    raise RefusedType(f"manifest: a value of type {type(value).__name__} cannot be written as JSON, got {value!r}")


def parse(data: bytes, thing: str) -> dict[str, Any]:
    """The manifest in `data`; thing: what the messages start with.

    Raises Damaged if a manifest of refemu was changed (not JSON, not canonical, a wrong digest), and Refused if it is
    not refemu's or follows another schema.
    """
    try:
        return _parse(data, thing)
    except Damaged as error:
        if is_ours(data):
            raise
        raise Refused(
            f"{error}; the file is damaged, or not a manifest of refemu; `refemu generate` writes sets"
        ) from error


def is_ours(data: bytes) -> bool:
    """Whether `data` looks like a manifest of refemu, even if damaged."""
    return any(mark in data for mark in _MARKS)


def _parse(data: bytes, thing: str) -> dict[str, Any]:
    try:
        return _parsed(data, thing)
    except RecursionError as error:
        raise Damaged(f"{thing}: not the JSON of a manifest: nested too deep") from error


def _parsed(data: bytes, thing: str) -> dict[str, Any]:
    try:
        manifest = json.loads(
            data.decode("ascii"), object_pairs_hook=_once, parse_float=_no_float, parse_constant=_no_float
        )
    except ValueError as error:
        raise Damaged(f"{thing}: not the JSON of a manifest: {error}") from error
    if not isinstance(manifest, dict):
        raise Damaged(f"{thing}: a manifest is an object, got {type(manifest).__name__}")
    _require_schema(manifest, thing)
    if canonical(manifest) != data:
        raise Damaged(f"{thing}: not in canonical form (sorted keys, ASCII, indent 1): something else edited it")
    if manifest.get("self_sha256") != (want := self_sha256(manifest)):
        raise Damaged(f"{thing}: self_sha256 is {manifest.get('self_sha256')}, the content has {want}")
    return validated(manifest, thing)


def _require_schema(manifest: dict[str, Any], thing: str) -> None:
    schema = manifest.get("schema")
    if schema == SCHEMA:
        return
    restored = {**manifest, "schema": SCHEMA}
    if (
        isinstance(schema, str)
        and _one_bit_apart(schema, SCHEMA)
        and restored.get("self_sha256") == self_sha256(restored)
    ):
        raise Damaged(f"{thing}: schema is {schema!r}, one bit away from {SCHEMA!r}, whose digest is right")
    if isinstance(schema, str) and schema.startswith("refemu.vectors/"):
        raise Refused(f"{thing}: unknown schema {schema!r}; this refemu reads {SCHEMA!r}")
    raise Damaged(f"{thing}: schema must be {SCHEMA!r}, got {schema!r}")


def _one_bit_apart(a: str, b: str) -> bool:
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and [(ord(x) ^ ord(y)).bit_count() for x, y in pairs if x != y] == [1]


def validated(manifest: dict[str, Any], thing: str) -> dict[str, Any]:
    """`manifest`, after a check that it follows the schema and its cases cover its rows; else raises Damaged."""
    import fastjsonschema

    try:
        _validator()(manifest)
    except fastjsonschema.JsonSchemaException as error:
        raise Damaged(f"{thing}: {error}") from error
    _require_rows(manifest, thing)
    for fault in array_faults(manifest):
        raise Damaged(f"{thing}: {fault}")
    return manifest


@cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    schema = resources.files("refemu.golden.files").joinpath("schema/vectors-1.json").read_text("ascii")
    return fastjsonschema.compile(json.loads(schema))


def unit_name(manifest: Mapping[str, Any]) -> str:
    """Name of a set's unit in files: for a plug-in's unit, without its distribution."""
    return str(manifest["unit"]).rpartition("/")[2]


def config(manifest: Mapping[str, Any]) -> str:
    """Configuration of a set: its ready name, or its parameters as text."""
    return str(manifest.get("parameters", manifest["name"][len(manifest["unit"]) + 1 :]))


def _require_rows(manifest: dict[str, Any], thing: str) -> None:
    rows, row = manifest["rows"], 0
    prefix = manifest["unit"].replace("/", ".")
    if not manifest["name"].startswith(f"{prefix}-"):
        raise Damaged(f"{thing}: name must be {prefix}-<configuration>, got {manifest['name']}")
    if ("/" in manifest["unit"]) != ("distribution_version" in manifest):
        raise Damaged(f"{thing}: distribution_version belongs to a unit of a distribution, got unit {manifest['unit']}")
    if rows < max(1, manifest["min_rows"]):
        raise Damaged(f"{thing}: must have at least {max(1, manifest['min_rows'])} rows, got {rows}")
    for entry in manifest["cases"]:
        if entry["first"] != row:
            raise Damaged(f"{thing}: cases must follow each other: row {row} is next, got first {entry['first']}")
        row += entry["cases"] * entry["rows"]
    if row != rows:
        raise Damaged(f"{thing}: cases cover {row} rows of {rows}")
    for array in manifest["arrays"]:
        if array["shape"][0] != rows:
            raise Damaged(f"{thing}: {array['name']} has {array['shape'][0]} rows of {rows}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key occurs twice")
    return entries


def _no_float(text: str) -> Any:
    raise ValueError(f"the number {text} is not an integer")


def array_faults(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors in the arrays of a manifest that follows the schema."""
    entries = {entry["name"]: entry for entry in manifest["arrays"]}
    if len(entries) < len(manifest["arrays"]):
        yield "an array is listed twice"
    for role in ("stimulus", "expected", "flags"):
        if all(entry["role"] != role for entry in entries.values()):
            yield f"no array of role {role}"
    for name, entry in entries.items():
        yield from (f"{name}: {what}" for what in _faults_of(entry, entries, manifest["rows"]))


def _faults_of(entry: Mapping[str, Any], entries: Mapping[str, Any], rows: int) -> Iterator[str]:
    role, bits, lanes = entry["role"], entry["bits"], entry["lanes"]
    if not re.fullmatch(_ARRAY_NAMES[role], entry["name"]):
        yield f"is not a name for an array of role {role}"
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
            yield "is not the mask of an array with as many bits and lanes"
