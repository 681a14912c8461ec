"""A directory is replaced completely or not at all; files of others are never touched."""

import errno
import os
import re
from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.golden.files import store

OLD = {"manifest.json": b'"self_sha256"', "vectors.npz": b"old", "hex/gold.mem": b"old"}
NEW = {"manifest.json": b'"self_sha256" 2', "vectors.npz": b"new", "include/u_vec.svh": b"new"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store.replace(tmp_path / "sets" / "u-c", OLD)
    return tmp_path / "sets" / "u-c"


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


def test_set_is_written_and_replaced_completely(folder: Path) -> None:
    assert store.read(folder) == OLD
    store.replace(folder, NEW)

    assert store.read(folder) == NEW
    assert beside(folder) == ["u-c"]


def test_modes_follow_the_umask(folder: Path) -> None:
    mask = os.umask(0)
    os.umask(mask)

    assert 0o777 & ~mask == folder.stat().st_mode & 0o777


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "u-c").mkdir()
    store.replace(tmp_path / "u-c", NEW)

    assert store.read(tmp_path / "u-c") == NEW


class Full:
    """A full disk, or an interrupt by the user, at the nth call."""

    def __init__(self, real: object, error: BaseException, calls: int) -> None:
        self.real, self.error, self.calls = real, error, calls

    def __call__(self, *arguments: object) -> object:
        self.calls -= 1
        if self.calls == 0:
            raise self.error
        return self.real(*arguments)  # type: ignore[operator]


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_full_disk_leaves_the_old_set(calls: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full(os.fsync, OSError(errno.ENOSPC, "No space left on device"), calls)
    monkeypatch.setattr(store.os, "fsync", lambda number: full(number))

    with pytest.raises(
        Refused, match=r"u-c: cannot be written: No space left on device; the old set is unchanged. Free some space"
    ):
        store.replace(folder, NEW)
    assert store.read(folder) == OLD
    assert beside(folder) == ["u-c"]


def test_full_disk_leaves_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full(os.fsync, OSError(errno.ENOSPC, "No space left on device"), 2)
    monkeypatch.setattr(store.os, "fsync", lambda number: full(number))

    with pytest.raises(Refused, match="nothing was written"):
        store.replace(tmp_path / "u-c", NEW)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupt_leaves_the_old_set(calls: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt at any call, including one between the two renames."""
    interrupted = Full(Path.rename, KeyboardInterrupt(), calls)
    monkeypatch.setattr(Path, "rename", lambda path, target: interrupted(path, target))

    with pytest.raises(KeyboardInterrupt):
        store.replace(folder, NEW)
    assert store.read(folder) == OLD
    assert beside(folder) == ["u-c"]


def test_next_run_recovers_from_kill_between_renames(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.with_name(".u-c.old"))
    full = Full(os.fsync, OSError(errno.ENOSPC, "No space left on device"), 1)
    monkeypatch.setattr(store.os, "fsync", lambda number: full(number))

    with pytest.raises(Refused, match="the old set is unchanged"):
        store.replace(folder, NEW)
    assert store.read(folder) == OLD
    assert beside(folder) == ["u-c"]


def test_next_run_drops_leftovers_after_renames(folder: Path) -> None:
    store.replace(folder.with_name(".u-c.old"), OLD)
    store.replace(folder, NEW)

    assert store.read(folder) == NEW
    assert beside(folder) == ["u-c"]


def test_foreign_folder_under_old_name_is_unchanged(folder: Path) -> None:
    other = folder.with_name(".u-c.old")
    other.mkdir()
    (other / "notes.txt").write_text("mine")

    with pytest.raises(Refused, match=r"notes.txt, which refemu did not write"):
        store.replace(folder, NEW)
    assert (other / "notes.txt").read_text() == "mine"


def foreign_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def foreign_folder(folder: Path) -> None:
    (folder / "hex" / "mine").mkdir()


def no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def foreign_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"name": "an extension"}')


def link(folder: Path) -> None:
    (folder / "vectors.npz").unlink()
    (folder / "vectors.npz").symlink_to(folder / "manifest.json")


def linked_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def plain_file(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("a file")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (foreign_file, "has notes.txt, which refemu did not write"),
        (foreign_folder, "has hex/mine/, which"),
        (no_manifest, "has hex/gold.mem but no manifest of refemu"),
        (foreign_manifest, "but no manifest of refemu"),
        (link, "has vectors.npz, which"),
        (linked_folder, "is not a directory"),
        (plain_file, "is not a directory"),
    ],
)
def test_folder_with_foreign_files_is_rejected(spoil: object, message: str, folder: Path) -> None:
    spoil(folder)  # type: ignore[operator]
    before = {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()}

    with pytest.raises(Refused, match=message):
        store.replace(folder, NEW)
    assert before == {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()}


def test_file_as_parent_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "sets").write_text("a file")

    with pytest.raises(Refused, match="cannot be written"):
        store.replace(tmp_path / "sets" / "u-c", NEW)


def test_half_deleted_set_is_dropped(folder: Path) -> None:
    (folder.with_name(".u-c.old") / "hex").mkdir(parents=True)
    (folder.with_name(".u-c.old") / "hex" / "gold.mem").touch()
    store.replace(folder, NEW)

    assert store.read(folder) == NEW
    assert beside(folder) == ["u-c"]


def test_sweep_removes_only_leftovers(folder: Path) -> None:
    store.replace(folder.with_name(".v-c.old"), OLD)
    store.replace(folder.with_name(".u-c.old"), OLD)
    for left in (".w-c.new-abcd", ".w-c.gone-abcd/discarded/hex", ".x-c.new-abcd"):
        (folder.parent / left).mkdir(parents=True)
    (folder.with_name(".x-c.new-abcd") / "notes.txt").touch()
    store.sweep(folder.parent)

    assert beside(folder) == [".x-c.new-abcd", "u-c", "v-c"]
    assert store.read(folder) == store.read(folder.with_name("v-c")) == OLD


def test_undeletable_old_set_does_not_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store.scratch, "discard", refuse)
        store.replace(folder, NEW)
    assert store.read(folder) == NEW
    assert beside(folder) == [".u-c.old", "u-c"]

    store.replace(folder, NEW)
    assert beside(folder) == ["u-c"]


@pytest.mark.parametrize("name", [".", "..", "/", "sub"])
def test_folder_in_place_of_file_is_rejected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in place of a file, or a missing name: no file is written."""
    (tmp_path / "work" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    with pytest.raises(Refused, match=rf"^{re.escape(name)}: must be a file, got a folder; nothing was written"):
        store.write_files({Path("first"): b"1", Path(name): b"2"})

    assert [path.name for path in tmp_path.rglob("*")] == ["work", "sub"]
