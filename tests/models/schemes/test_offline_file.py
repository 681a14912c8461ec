"""The file of offline results: read back as written, equal bytes for equal contents, damage rejected."""

from pathlib import Path

import numpy as np
import pytest

from refemu.arith.archive import Archive
from refemu.arith.checks import Refused
from refemu.models.schemes import offline_file

DESCRIPTION = {"model": "toy", "tokens": 3}


def rows(archive: Archive) -> np.ndarray:
    return archive.array("rows")


def test_a_file_is_read_back(tmp_path: Path) -> None:
    array = np.arange(6, dtype="<u2")
    offline_file.save(tmp_path / "learned.npz", offline_file.to_bytes(DESCRIPTION, {"rows": array}))
    description, read = offline_file.load(tmp_path / "learned.npz", "toy file", rows)

    assert description == DESCRIPTION
    assert read.dtype == array.dtype and read.tolist() == array.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["learned.npz"]


def test_equal_contents_are_equal_bytes() -> None:
    """Whatever the order of the description, and whenever it is written."""
    turned = dict(reversed(DESCRIPTION.items()))

    assert offline_file.to_bytes(DESCRIPTION, {}) == offline_file.to_bytes(turned, {})
    assert offline_file.to_bytes(DESCRIPTION, {}) != offline_file.to_bytes({**DESCRIPTION, "tokens": 4}, {})


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "learned.npz"
    offline_file.save(path, b"old")

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        offline_file.save(path, b"new")

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "toy file .*learned.npz: no such file"),
        (b"PK", "toy file .*learned.npz: not a readable toy file"),
        (offline_file.to_bytes(DESCRIPTION, {}), "not a readable toy file"),
        (offline_file.to_bytes({**DESCRIPTION, "version": 2}, {"rows": np.zeros(1)}), "version must be 1, got 2"),
    ],
)
def test_invalid_files_are_rejected(tmp_path: Path, data: bytes | None, message: str) -> None:
    """What is missing, damaged, without its arrays, or of another version."""
    if data is not None:
        (tmp_path / "learned.npz").write_bytes(data)

    with pytest.raises(Refused, match=message):
        offline_file.load(tmp_path / "learned.npz", "toy file", rows)
