"""The release: archives, versions, and what is left to a person."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from tools import archives, release


def archive(path: Path, mode: int, order: int) -> bytes:
    """A source archive of two files and a folder, rewritten."""
    with tarfile.open(path, "w:gz") as packed:
        for name in ("refemu-1", "refemu-1/b", "refemu-1/a")[::order]:
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE if name == "refemu-1" else tarfile.REGTYPE
            entry.mode, entry.mtime, entry.uid, entry.uname = mode, mode, mode, "somebody"
            entry.size = 0 if entry.isdir() else 1
            packed.addfile(entry, io.BytesIO(name[-1:].encode()))
    archives.rewrite_sdist(path)
    return path.read_bytes()


def test_source_archive_ignores_modes_dates_owners_order(tmp_path: Path) -> None:
    one, other = archive(tmp_path / "one.tar.gz", 0o755, 1), archive(tmp_path / "other.tar.gz", 0o600, -1)
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one))) as packed:
        assert packed.getnames() == ["refemu-1/a", "refemu-1/b"]


def test_one_version_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    release.require_one_version()
    monkeypatch.setattr("refemu.__version__", "9.9.9")
    with pytest.raises(SystemExit, match=r"CITATION\.cff: version must be 9\.9\.9"):
        release.require_one_version()


def test_what_a_person_must_give_is_listed() -> None:
    listed = "\n".join(release.missing())
    assert "public host" in listed and "index" in listed and "gpg" in listed


def test_two_builds_that_differ_end_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(command: list[str], **options: object) -> None:
        if "build" in command:
            folder = Path(command[-1]) / "built"
            folder.mkdir(parents=True)
            (folder / "refemu.whl").write_bytes(os.fsencode(command[-1]))
            (folder / "refemu.tar.gz").write_bytes(b"")

    monkeypatch.setattr("tools.release.subprocess.run", build)
    with pytest.raises(SystemExit, match=r"do not give the same bytes: refemu\.whl"):
        release.built_twice(tmp_path)
