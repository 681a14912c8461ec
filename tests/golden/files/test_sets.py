"""A set loads only if every byte that a reader needs is right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.golden.files import hexfile, npz, sets
from refemu.golden.files import manifest as manifests
from tests.golden import fakes


@pytest.fixture
def folder(made: Path) -> Path:
    return made / "blender-wrap"


def with_arrays(folder: Path, **changes: Any) -> Path:
    """The set with replaced arrays (None: removed) and its unchanged manifest."""
    arrays = {
        **npz.read((folder / "vectors.npz").read_bytes(), ""),
        **{name.replace("__", "."): array for name, array in changes.items()},
    }
    npz.write(folder / "vectors.npz", {name: array for name, array in arrays.items() if array is not None})
    return folder


def test_load_gives_manifest_and_arrays(folder: Path) -> None:
    golden = sets.load(folder)

    assert (golden.name, golden.config, golden.rows) == ("blender-wrap", "wrap", 28)
    assert list(golden.arrays) == [entry["name"] for entry in golden.manifest["arrays"]]
    assert golden.manifest == json.loads((folder / "manifest.json").read_text())
    assert not golden.arrays["in.first"].flags.writeable
    assert (
        repr(golden)
        == "<Golden blender-wrap: 28 rows of in.first, in.second, out.both, out.ratio, out.ratio.care, out.odd, flags>"
    )


def test_path_of_the_manifest_loads_the_set(folder: Path) -> None:
    assert sets.load(folder).manifest == sets.load(str(folder / "manifest.json")).manifest


def test_numpy_reads_the_same(folder: Path) -> None:
    with np.load(folder / "vectors.npz", allow_pickle=False) as arrays:
        for name, array in sets.load(folder).arrays.items():
            assert (array.dtype, array.tolist()) == (arrays[name].dtype, arrays[name].tolist())


def test_rows_belong_to_cases(made: Path) -> None:
    golden = sets.load(made / "meter-w4")

    assert [golden.case(row) for row in range(12)] == [0, 0, 0, 3, 3, 3, 6, 6, 8, 8, 10, 10]
    assert golden.entry(8)["why"] == "some of everything"
    with pytest.raises(Refused, match=r"row 12 is outside \[0, 12\)"):
        golden.entry(12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"out__odd": None}, "vectors.npz: out.odd: missing", id="missing"),
        pytest.param({"out__even": np.zeros(28, np.uint8)}, "out.even: not in the manifest", id="extra"),
        pytest.param({"out__odd": np.zeros(28, np.uint16)}, "out.odd: dtype must be u1, got u2", id="dtype"),
        pytest.param({"out__odd": np.zeros(28, np.bool_)}, "out.odd: dtype must be u1, got b1", id="bool"),
        pytest.param({"out__odd": np.zeros(27, np.uint8)}, r"out.odd: shape must be \(28,\), got \(27,\)", id="shape"),
        pytest.param({"out__odd": np.zeros(28, np.uint8)}, "out.odd: does not match its sha256", id="hash"),
    ],
)
def test_different_arrays_are_rejected(changes: dict, message: str, folder: Path) -> None:
    with pytest.raises(Refused, match=message):
        sets.load(with_arrays(folder, **changes))


def test_codes_beyond_their_bits_are_rejected(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = next(entry for entry in manifest["arrays"] if entry["name"] == "out.odd")
    wide = np.full(28, 2, np.uint8)
    entry["sha256"] = manifests.array_sha256(wide)
    (folder / "manifest.json").write_bytes(manifests.canonical(manifests.sealed(manifest)))

    with pytest.raises(Refused, match=r"out.odd: holds codes of more than 1 bits"):
        sets.load(with_arrays(folder, out__odd=wide))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(
            lambda folder: (folder / "manifest.json").unlink(),
            "no manifest.json; a golden set is a folder",
            id="no manifest",
        ),
        pytest.param(lambda folder: (folder / "vectors.npz").unlink(), "vectors.npz is missing", id="no vectors"),
        pytest.param(
            lambda folder: (folder / "vectors.npz").write_bytes(b"PK"),
            "vectors.npz: not a readable .npz",
            id="truncated",
        ),
        pytest.param(
            lambda folder: (folder / "manifest.json").write_text("{}"), "not a manifest of refemu", id="foreign"
        ),
    ],
)
def test_broken_sets_are_rejected(spoil: Any, message: str, folder: Path) -> None:
    spoil(folder)

    with pytest.raises(Refused, match=message):
        sets.load(folder)


def test_inputs_of_a_case_are_values(made: Path) -> None:
    config, inputs = sets.case_inputs(sets.load(made / "meter-w4"), 3, fakes.METER)

    assert (config, {name: array.tolist() for name, array in inputs.items()}) == (
        "w4",
        {"add": [0, 3, 7], "clear": [0, 0, 0]},
    )
    _, inputs = sets.case_inputs(sets.load(made / "blender-wrap"), 0, fakes.BLENDER)
    assert {name: array.tolist() for name, array in inputs.items()} == {"first": [5], "second": [-3]}


@pytest.mark.parametrize(
    ("case", "unit", "message"),
    [
        (0, fakes.BLENDER, "meter-w4: must be a set of blender, got one of meter"),
        (4, fakes.METER, "row 4 is inside case 3; give 3"),
        (12, fakes.METER, "row 12 is outside"),
    ],
)
def test_invalid_case_is_rejected(case: int, unit: Any, message: str, made: Path) -> None:
    with pytest.raises(Refused, match=message):
        sets.case_inputs(sets.load(made / "meter-w4"), case, unit)


def test_exports_are_in_the_manifest(folder: Path) -> None:
    manifest = sets.load(folder).manifest

    assert {"stim.mem", "gold.mem", "care.mem"} == set(manifest["hex"])
    assert {
        "array": "in.first",
        "bytes": 28,
        "sha256": manifests.sha256((folder / "bin/in.first.bin").read_bytes()),
    } == manifest["bin"]["in.first.bin"]
    for name, entry in manifest["hex"].items():
        assert manifests.sha256((folder / "hex" / name).read_bytes()) == entry["sha256"]
        assert (8 if name == "stim.mem" else 27, 2 if name == "stim.mem" else 7) == (
            entry["word_bits"],
            entry["digits"],
        )


def test_raw_files_are_little_endian_in_c_order() -> None:
    lanes = np.asfortranarray([[1, 2], [3, 0x0405]]).astype(">u2")

    assert sets._raw({"out.x": lanes}) == {"out.x.bin": bytes([1, 0, 2, 0, 3, 0, 5, 4])}


def test_raw_files_mark_first_rows_of_cases(made: Path) -> None:
    """`in.first` is a port of one unit; `first` is the reset of the other, which a combinational unit lacks."""
    first = np.fromfile(made / "meter-w4" / "bin" / "first.bin", np.uint8)

    assert first.tolist() == hexfile.case_starts(sets.load(made / "meter-w4").manifest).tolist()
    assert first[0] == 1 < first.sum() < first.size
    assert not (made / "blender-wrap" / "bin" / "first.bin").exists()
