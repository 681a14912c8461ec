"""Shipped texts are unchanged; a user's text is UTF-8 or rejected."""

from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.models import text


def test_the_default_text_is_the_evaluation_slice() -> None:
    found = text.default()

    assert len(found) == 17_232 and found.isascii()
    assert found.startswith(" years of danger, and\nwould have rejoiced")


def test_the_calibration_text_is_another_novel() -> None:
    found = text.calibration()

    assert len(found) == 18_341 and found.isascii()
    assert found.startswith("Chapter 1\n\n\nIt is a truth universally acknowledged")
    assert text.CALIBRATION != text.DEFAULT


def test_every_shipped_file_is_listed_and_explained() -> None:
    readme = (text.FOLDER / "README.txt").read_text("utf-8")
    files = {path.name for path in text.FOLDER.glob("*.txt")} - {"README.txt"}

    assert files == {entry.file for entry in text.TEXTS.values()}
    assert all(file in readme for file in files) and "public domain" in readme


def test_a_changed_file_is_rejected_with_both_hashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "persuasion.txt").write_bytes((text.FOLDER / "persuasion.txt").read_bytes() + b"\n")
    monkeypatch.setattr(text, "FOLDER", tmp_path)

    with pytest.raises(Refused, match=r"sha256 is [0-9a-f]{64}, shipped was 300b0a43"):
        text.default()


def test_a_text_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\r\n\n".encode())

    assert text.read(tmp_path / "a.txt") == "é\r\n\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"ab\xff", "not UTF-8, byte 0xff at offset 2", id="latin-1"),
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(None, "No such file", id="missing"),
    ],
)
def test_unreadable_texts_are_rejected(content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)

    with pytest.raises(Refused, match=message):
        text.read(tmp_path / "a.txt")


def test_an_unknown_text_is_rejected() -> None:
    with pytest.raises(Refused, match="unknown text 'emma'"):
        text.shipped("emma")


def test_text_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(1 << 32)
    with pytest.raises(Refused, match=r"a.txt: must have at most 16777216 bytes, got 4294967296; use a part"):
        text.read(tmp_path / "a.txt")
