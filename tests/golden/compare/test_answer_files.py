"""Answers in every form that devices write."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.compare import answer_files
from refemu.golden.files import sets


@pytest.fixture
def golden(made: Path) -> sets.Golden:
    return sets.load(made / "blender-wrap")


def outputs(golden: sets.Golden, **changes: Any) -> dict[str, np.ndarray]:
    """The right answer with some arrays replaced (None: removed)."""
    arrays = {
        name: array for name, array in golden.arrays.items() if name.startswith("out.") and not name.endswith("care")
    }
    changed = {**arrays, **{name.replace("__", "."): array for name, array in changes.items()}}
    return {name: array for name, array in changed.items() if array is not None}


def answered(tmp_path: Path, golden: sets.Golden, **changes: Any) -> answer_files.Answer:
    np.savez(tmp_path / "dut.npz", **outputs(golden, **changes))
    return answer_files.read(tmp_path / "dut.npz", golden)


def signed(golden: sets.Golden) -> np.ndarray:
    return (golden.arrays["out.both"].astype(np.int64) ^ 16) - 16


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda golden: {}, id="as in the set"),
        pytest.param(lambda golden: {"out__both": signed(golden)}, id="int64"),
        pytest.param(lambda golden: {"out__both": signed(golden).astype(np.int8)}, id="int8"),
        pytest.param(lambda golden: {"out__both": golden.arrays["out.both"].astype(np.uint32)}, id="wide"),
        pytest.param(lambda golden: {"out__both": np.asfortranarray(golden.arrays["out.both"])}, id="fortran"),
        pytest.param(lambda golden: {"out__odd": golden.arrays["out.odd"].astype(bool)}, id="bool"),
        pytest.param(lambda golden: {"out__ratio": golden.arrays["out.ratio"].view(np.float16)}, id="float16"),
        pytest.param(lambda golden: {"out__ratio": golden.arrays["out.ratio"].astype(">u2")}, id="big-endian"),
    ],
)
def test_right_answer_is_read_in_every_form(change: Any, golden: sets.Golden, tmp_path: Path) -> None:
    found = answered(tmp_path, golden, **change(golden))

    for name, array in outputs(golden).items():
        assert (array.dtype, array.tolist()) == (found.arrays[name].dtype, found.arrays[name].tolist())


def test_answer_may_be_another_set(golden: sets.Golden, made: Path) -> None:
    assert list(answer_files.read(made / "blender-saturate", golden).arrays) == ["out.both", "out.ratio", "out.odd"]


def test_answer_may_be_gold_mem(golden: sets.Golden, made: Path) -> None:
    found = answer_files.read(made / "blender-wrap" / "hex" / "gold.mem", golden)

    assert {name: array.tolist() for name, array in outputs(golden).items()} == {
        name: array.tolist() for name, array in found.arrays.items()
    }


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        pytest.param(
            {"in__first": np.zeros(28)},
            Refused,
            "array in.first is not an output of blender-wrap; known: out.both, out.ratio",
            id="foreign",
        ),
        pytest.param({"out__both": None, "out__ratio": None, "out__odd": None}, Refused, "has no out", id="nothing"),
        pytest.param(
            {"out__odd": np.zeros(27, np.uint8)}, Refused, r"out.odd: shape must be \(28,\), got \(27,\)", id="rows"
        ),
        pytest.param({"out__odd": np.full(28, 2)}, Refused, r"out.odd: 2 at index \(0,\)", id="range"),
        pytest.param({"out__both": np.full((28, 2), 32, np.uint8)}, Refused, "row 0 holds more than 5 bits", id="bits"),
        pytest.param(
            {"out__odd": np.zeros(28)}, RefusedType, "integers of 1 bits are needed, got dtype float64", id="floats"
        ),
        pytest.param({"out__odd": np.array([None] * 28)}, Refused, "is pickled", id="pickled"),
    ],
)
def test_invalid_arrays_are_rejected(
    change: Any, error: type[Exception], message: str, golden: sets.Golden, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        answered(tmp_path, golden, **change)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        pytest.param("dut.npz", b"PK\x03\x04", "not a readable .npz", id="truncated"),
        pytest.param("dut.npz", b"00\n", "not a readable .npz", id="text called npz"),
        pytest.param("dut.npy", b"\x93NUMPY\x01\x00", "is a single .npy; save the arrays by name", id="npy"),
        pytest.param("dut.txt", b"00\n11\n", "line 1 must have 7 digits, got 2", id="text"),
        pytest.param("dut.txt", b"", "28 words and an end word of ones are needed, got 0", id="empty"),
    ],
)
def test_invalid_files_are_rejected(name: str, data: bytes, message: str, golden: sets.Golden, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(Refused, match=message):
        answer_files.read(tmp_path / name, golden)


def test_missing_file_is_rejected(golden: sets.Golden, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such file"):
        answer_files.read(tmp_path / "none.npz", golden)


def test_set_with_different_stimulus_is_rejected(golden: sets.Golden, made: Path) -> None:
    with pytest.raises(Refused, match=r"meter-w4: its stimulus in.first differs from blender-wrap's"):
        answer_files.read(made / "meter-w4", golden)
