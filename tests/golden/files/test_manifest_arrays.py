"""Rules for the arrays of a manifest: the reader names the broken rule and no other."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from refemu.golden.files.manifest import array_faults


def entry(name: str, role: str, bits: int, lanes: int = 1, encoding: str = "bits") -> dict[str, Any]:
    dtype = {8: "u1", 16: "u2", 32: "u4"}[max(8, 1 << (bits - 1).bit_length())]
    shape = [3, lanes] if lanes > 1 else [3]
    return {
        "name": name,
        "role": role,
        "bits": bits,
        "lanes": lanes,
        "shape": shape,
        "dtype": dtype,
        "encoding": encoding,
    }


SOUND = {
    "rows": 3,
    "arrays": [
        entry("in.x", "stimulus", 16, 4, "f16"),
        entry("out.y", "expected", 8, 2),
        entry("out.y.care", "mask", 8, 2),
        entry("st.acc", "state", 32),
        entry("flags", "flags", 8),
    ],
}


def test_valid_manifest_has_no_errors() -> None:
    assert list(array_faults(SOUND)) == []


def change(index: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["arrays"][index].update(values)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda manifest: manifest["arrays"].append(manifest["arrays"][0]), "an array is listed twice"),
        (lambda manifest: manifest["arrays"].pop(0), "no array of role stimulus"),
        (lambda manifest: manifest["arrays"].pop(4), "no array of role flags"),
        (change(3, name="out.acc"), "out.acc: is not a name for an array of role state"),
        (change(0, shape=[3]), r"in.x: shape must be [3, 4] for 3 rows and 4 lanes, got [3]"),
        (change(3, dtype="u2"), "st.acc: dtype must be u4 for 32 bits, got u2"),
        (change(3, encoding="f16"), "st.acc: encoding f16 has 16 bits, got 32"),
        (change(4, bits=16, dtype="u2"), "flags: flags have 8 bits, got 16"),
        (change(2, lanes=1, shape=[3]), "out.y.care: is not the mask of an array with as many bits and lanes"),
        (change(2, name="out.z.care"), "out.z.care: is not the mask of an array with as many bits and lanes"),
    ],
)
def test_a_broken_rule_is_named(spoil: Callable[[dict[str, Any]], None], expected: str) -> None:
    manifest = copy.deepcopy(SOUND)
    spoil(manifest)

    assert list(array_faults(manifest)) == [expected]
