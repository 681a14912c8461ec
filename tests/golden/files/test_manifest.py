"""A manifest has one form, and its reader names errors."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refemu
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import manifest as manifests


@pytest.fixture
def data(made: Path) -> bytes:
    return (made / "meter-w4" / "manifest.json").read_bytes()


def changed(data: bytes, seal: bool = True, **fields: Any) -> bytes:
    """The manifest with changed fields, by default with their digest."""
    manifest = {**json.loads(data), **fields}
    return manifests.canonical(manifests.sealed(manifest) if seal else manifest)


def test_canonical_form_is_sorted_ascii() -> None:
    assert manifests.canonical({"b": "§", "a": [1, True]}) == b'{\n "a": [\n  1,\n  true\n ],\n "b": "\\u00a7"\n}\n'


def test_written_manifest_reads_back(data: bytes) -> None:
    manifest = manifests.parse(data, "m")

    assert data == manifests.canonical(manifest)
    assert manifest["schema"] == "refemu.vectors/1"


def test_digest_leaves_out_itself_and_the_release(data: bytes) -> None:
    manifest = json.loads(data)
    rest = {name: value for name, value in manifest.items() if name not in ("self_sha256", "refemu_version")}

    assert manifests.sha256(manifests.canonical(rest)) == manifest["self_sha256"]
    assert manifests.self_sha256({**manifest, "refemu_version": "9.9.9", "self_sha256": ""}) == manifest["self_sha256"]


def test_array_digest_ignores_byte_order_and_strides() -> None:
    array = np.array([[1, 2], [3, 4]], ">u2")

    assert manifests.sha256(bytes([1, 0, 2, 0, 3, 0, 4, 0])) == manifests.array_sha256(array)
    assert manifests.array_sha256(np.asfortranarray(array)) == manifests.array_sha256(array)


def test_manifest_has_no_dates_hosts_or_paths(data: bytes, made: Path) -> None:
    assert str(made).encode() not in data
    assert not {"date", "host", "user", "time"} & set(json.loads(data))


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Parameters:
    """A configuration of a scheme."""

    low: int
    ratio: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0x1.999999999999ap-4"),
        (np.float32(0.5), "0x1.0000000000000p-1"),
        (np.uint8(3), 3),
        (True, True),
        (np.True_, True),
        (None, "none"),
        (Colour.RED, "red"),
        ((1, (2,)), [1, [2]]),
        ({"a": (1,)}, {"a": [1]}),
        (Parameters(1, 2.0), {"low": 1, "ratio": "0x1.0000000000000p+1"}),
        (np.arange(2), [0, 1]),
    ],
)
def test_values_become_plain(value: Any, expected: Any) -> None:
    assert expected == manifests.plain(value)
    assert type(expected) is type(manifests.plain(value))


def test_values_without_json_form_are_rejected() -> None:
    with pytest.raises(RefusedType, match="type object cannot be written as JSON"):
        manifests.plain(object())


FOREIGN = [
    pytest.param(b"", "not the JSON of a manifest", id="empty"),
    pytest.param(b"\x80\x04pickle", "not the JSON", id="pickle"),
    pytest.param(b'{\n "arrays": [\n  {\n   "name": "x', "not the JSON of a manifest: Unterminated", id="first part"),
    pytest.param(b"[1, 2]", "a manifest is an object, got list", id="list"),
    pytest.param(
        b'{"name": "an extension", "version": 2}', "schema must be 'refemu.vectors/1', got None", id="foreign"
    ),
    pytest.param(b"[" * 100_000, "not the JSON", id="deep"),
]


@pytest.mark.parametrize(("data", "message"), FOREIGN)
def test_file_that_is_not_a_manifest_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(
        Refused, match=f"m: {message}.*; the file is damaged, or not a manifest of refemu; `ref"
    ) as caught:
        manifests.parse(data, "m")

    assert not isinstance(caught.value, manifests.Damaged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda data: data[:-40], "not the JSON of a manifest", id="truncated"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), "not in canonical form", id="line ends"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, "not the JSON", id="byte order mark"),
        pytest.param(lambda data: json.dumps(json.loads(data)).encode(), "not in canonical form", id="reformatted"),
        pytest.param(
            lambda data: data.replace(b'"seed": 0', b'"seed": 1', 1), "self_sha256 is .*, the content has", id="edited"
        ),
        pytest.param(
            lambda data: data.replace(b'"rows": 3', b'"rows": 3.0', 1), "the number 3.0 is not an integer", id="float"
        ),
        pytest.param(
            lambda data: data.replace(b'"rows": 3', b'"rows": NaN', 1), "the number NaN is not an integer", id="nan"
        ),
        pytest.param(
            lambda data: data.replace(b' "seed": 0', b' "seed": 0,\n "seed": 0', 1), "a key occurs twice", id="twice"
        ),
        pytest.param(lambda data: changed(data, rows=11), "rows", id="rows"),
        pytest.param(lambda data: changed(data, rows=0), "rows must be bigger than or equal to 1", id="no rows"),
        pytest.param(lambda data: changed(data, min_rows=13), "must have at least 13 rows, got 12", id="too few rows"),
        pytest.param(lambda data: changed(data, extra=1), "must not contain {'extra'} properties", id="extra"),
        pytest.param(lambda data: changed(data, timing="sometimes"), "timing must be one of", id="timing"),
        pytest.param(
            lambda data: changed(data, cases=json.loads(data)["cases"][:1]), "cases cover 6 rows of 12", id="cases"
        ),
        pytest.param(
            lambda data: changed(data, cases=json.loads(data)["cases"][1:]), "row 0 is next, got first 6", id="gap"
        ),
        pytest.param(
            lambda data: changed(data, cases=[{**json.loads(data)["cases"][0], "id": ""}]), "id must match", id="no id"
        ),
        pytest.param(
            lambda data: changed(data, arrays=[{**one, "shape": [11]} for one in json.loads(data)["arrays"]]),
            "in.add has 11 rows of 12",
            id="shapes",
        ),
        pytest.param(lambda data: changed(data, name="metre-w4"), "name must be meter-<configuration>", id="name"),
        pytest.param(
            lambda data: data.replace(b'"source": {', b'"source": ' + b"[" * 100_000, 1), "nested too deep", id="nested"
        ),
        pytest.param(
            lambda data: changed(data, schema="refemu.vectors/0", seal=False), "one bit away", id="schema, one bit"
        ),
        pytest.param(lambda data: changed(data, schema="x"), "schema must be", id="schema"),
    ],
)
def test_a_changed_manifest_is_damaged(change: Any, message: str, data: bytes) -> None:
    with pytest.raises(manifests.Damaged, match=f"^m: .*{message}"):
        manifests.parse(change(data), "m")


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("out.wide", {"lanes": 32}, r"out.wide: shape must be \[12, 32\] for 12 rows and 32 lanes, got \[12, 3\]"),
        ("out.wide", {"lanes": 1}, r"out.wide: shape must be \[12\] for 12 rows and 1 lanes, got \[12, 3\]"),
        ("out.wide", {"dtype": "u2"}, "out.wide: dtype must be u8 for 40 bits, got u2"),
        ("in.add", {"bits": 64}, "in.add: dtype must be u8 for 64 bits, got u1"),
        ("in.add", {"encoding": "f16"}, "in.add: encoding f16 has 16 bits, got 3"),
        ("in.add", {"role": "expected"}, "in.add: is not a name for an array of role expected"),
        ("in.add", {"name": "in.add.1"}, "in.add.1: is not a name for an array of role stimulus"),
        ("in.add", {"name": "in.clear"}, "an array is listed twice"),
        ("out.wide", {"role": "mask", "name": "st.x.care"}, "no array of role expected"),
        (
            "st.total",
            {"role": "mask", "name": "out.x.care"},
            "out.x.care: is not the mask of an array with as many bits",
        ),
        ("flags", {"bits": 7}, "flags: flags have 8 bits, got 7"),
        ("flags", {"role": "state", "name": "st.x"}, "no array of role flags"),
    ],
)
def test_contradictory_arrays_are_damaged(name: str, fields: dict[str, Any], message: str, data: bytes) -> None:
    arrays = [entry | fields if entry["name"] == name else entry for entry in json.loads(data)["arrays"]]

    with pytest.raises(manifests.Damaged, match=f"^m: {message}"):
        manifests.parse(changed(data, arrays=arrays), "m")


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("schema", ["refemu.vectors/2", "refemu.vectors/99"])
def test_unknown_schema_is_rejected(schema: str, seal: bool, data: bytes) -> None:
    with pytest.raises(Refused, match=f"unknown schema '{schema}'; this refemu reads 'refemu.vectors/1'") as caught:
        manifests.parse(changed(data, seal, schema=schema), "m")

    assert not isinstance(caught.value, manifests.Damaged)


def test_current_release_is_known() -> None:
    assert refemu.__version__ in manifests.RELEASES
    assert manifests.RELEASES[-1] == refemu.__version__


def test_no_flipped_bit_turns_one_release_into_another() -> None:
    """`refemu_version` is outside the digest; it is protected only because releases are known."""
    for at, one in enumerate(manifests.RELEASES):
        for other in manifests.RELEASES[:at]:
            distance = sum((ord(a) ^ ord(b)).bit_count() for a, b in zip(one, other, strict=False))

            assert len(one) != len(other) or distance > 1, f"{one} and {other} are one bit apart: skip that number"
