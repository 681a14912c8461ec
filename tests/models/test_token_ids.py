"""Token ids from files of a user."""

from pathlib import Path

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.models import token_ids


@pytest.mark.parametrize("content", ["1\n2\n3\n", "1 2 3", "\t1 2\r\n3  "])
def test_text(content: str, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text(content)

    assert token_ids.read(tmp_path / "ids", 4) == [1, 2, 3]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.dtype(">i4")])
def test_array(dtype: np.dtype, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([0, 3, 1], dtype))

    assert token_ids.read(tmp_path / "ids.npy", 4) == [0, 3, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "at least one token id is needed, got none"),
        (" \n", "at least one token id is needed, got none"),
        ("0 1 4", r"a token id must be in \[0, 4\), got 4 at index 2"),
        ("0 -1", r"a token id must be in \[0, 4\), got -1 at index 1"),
        ("0 1.0", "a token id must be an integer, got '1.0' at index 1"),
        ("0x1", "a token id must be an integer, got '0x1' at index 0"),
        ("1,2", "a token id must be an integer, got '1,2' at index 0"),
        ("9" * 5000, "a token id must be an integer, got '9999"),
        ("\xff", r"a token id must be an integer, got '\\xc3\\xbf' at index 0"),
        ("\ufeff1 2", r"a token id must be an integer, got '\\xef\\xbb\\xbf1' at index 0"),
    ],
)
def test_bad_text(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text(content, "utf-8")
    with pytest.raises(Refused, match=message):
        token_ids.read(tmp_path / "ids", 4)


@pytest.mark.parametrize(
    "array", [np.array([1.0]), np.array([[1]]), np.array([True]), np.array(["1"]), np.array([], np.int64)]
)
def test_bad_array(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", array)
    with pytest.raises(Refused, match=r"integers of one axis are needed|at least one token id"):
        token_ids.read(tmp_path / "ids.npy", 4)


def test_pickled_objects_and_cut_arrays_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(Refused, match="integers of one axis are needed, got object"):
        token_ids.read(tmp_path / "ids.npy", 4)
    np.save(tmp_path / "ids.npy", np.arange(3))
    (tmp_path / "ids.npy").write_bytes((tmp_path / "ids.npy").read_bytes()[:-5])
    with pytest.raises(Refused, match="not an array of token ids"):
        token_ids.read(tmp_path / "ids.npy", 4)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"No such file"):
        token_ids.read(tmp_path / "nowhere", 4)


def test_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    """A sparse file of 4 GB."""
    for name in ("ids.npy", "ids.txt"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 32)
        with pytest.raises(
            Refused, match=r"ids .*: must have at most 16777216 bytes, got 4294967296; use a part of it"
        ):
            token_ids.read(tmp_path / name, 4)


def test_underscores_between_digits_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("1 1_0")
    with pytest.raises(Refused, match="1_0"):
        token_ids.read(tmp_path / "ids.txt", 100)


def test_archive_is_rejected_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "ids.npz", np.arange(3))
    with pytest.raises(
        Refused, match=r"must be text or one .npy array, got an archive; save the array with numpy.save"
    ):
        token_ids.read(tmp_path / "ids.npz", 4)
