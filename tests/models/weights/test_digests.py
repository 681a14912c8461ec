"""A digest is remembered as long as the file is the same, and never longer."""

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.models.weights import digests


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def old(file: Path, content: bytes, seconds: int = 100) -> Path:
    """A file that was last changed a while ago."""
    file.write_bytes(content)
    os.utime(file, ns=(file.stat().st_mtime_ns - seconds * 10**9,) * 2)
    return file


def refuse_to_read(file: Path) -> str:
    raise AssertionError(f"{file} was read")


def test_a_second_digest_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = old(tmp_path / "weights", b"one")
    first = digests.digest(file)
    monkeypatch.setattr(digests, "read", refuse_to_read)

    assert first == digests.digest(file) == sha256(b"one").hexdigest()


@pytest.mark.parametrize("change", ["content of another size", "content and date", "another file of the same size"])
def test_a_changed_file_is_read_again(change: str, tmp_path: Path) -> None:
    file = old(tmp_path / "weights", b"one")
    digests.digest(file)
    if change == "content of another size":
        date = file.stat().st_mtime_ns
        file.write_bytes(b"longer")
        os.utime(file, ns=(date, date))
    elif change == "content and date":
        old(file, b"two", 50)
    else:
        date = file.stat().st_mtime_ns
        other = tmp_path / "other"
        other.write_bytes(b"two")
        os.utime(other, ns=(date, date))
        other.replace(file)

    assert digests.digest(file) == sha256(file.read_bytes()).hexdigest()


def test_file_that_changed_this_moment_is_not_remembered(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    digests.digest(file)

    assert not (home / digests.FOLDER).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"path": 3}', '{"path": "%s", "stamp": %s, "sha256": "short"}'])
def test_damaged_cached_digest_is_ignored(content: str, tmp_path: Path, home: Path) -> None:
    file = old(tmp_path / "weights", b"one")
    digests.digest(file)
    (memory,) = (home / digests.FOLDER).iterdir()
    memory.write_text(content.replace("%s", str(file), 1).replace("%s", json.dumps(list(digests.stamp(file)))))

    assert digests.digest(file) == sha256(b"one").hexdigest()


def test_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, no folder")
    monkeypatch.setenv("REFEMU_HOME", str(blocked / "home"))

    assert digests.digest(old(tmp_path / "weights", b"one")) == sha256(b"one").hexdigest()


def test_a_file_changed_since_its_digest_is_rejected(tmp_path: Path) -> None:
    file = old(tmp_path / "weights", b"one")
    digests.digest(file)
    digests.require_same(file)
    file.write_bytes(b"two")

    with pytest.raises(Refused, match="the file changed since its sha256 was computed; start again"):
        digests.require_same(file)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing: No such file"):
        digests.digest(tmp_path / "nothing")
