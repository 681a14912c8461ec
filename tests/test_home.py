"""The folder of the user's cache."""

import os
from pathlib import Path

import pytest

from refemu.home import cache_folder, exposed, make_private


def test_refemu_home_overrides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path))

    assert cache_folder() == tmp_path


def test_default_follows_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REFEMU_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert cache_folder().name == "refemu"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A private folder `a/b/c` with a file and a folder with a file."""
    make_private(tmp_path / "a" / "b" / "c" / "d")
    for name in ("file", "d/file"):
        (tmp_path / "a" / "b" / "c" / name).touch(0o600)
    return tmp_path / "a"


def test_only_missing_folders_become_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a" / "b")
    make_private(tmp_path / "a" / "b")

    modes = [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")]
    assert modes == [0o755, 0o700, 0o700]


@pytest.mark.parametrize("path", ["", "b", "b/c", "b/c/d", "b/c/file", "b/c/d/file"])
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_world_writable_file_is_named(tree: Path, path: str, mode: int) -> None:
    tree.parent.chmod(0o777)  # above the root it does not count
    assert exposed(tree, tree / "b/c") == ""
    (tree / path).chmod(mode)

    assert exposed(tree, tree / "b/c") == f"{tree / path} (owner {os.geteuid()}, mode {mode:04o})"


def test_file_of_other_owner_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.lstat

    def lstat(self: Path) -> os.stat_result:
        status = real(self)
        return os.stat_result((*status[:4], 12345, *status[5:])) if self.name == "file" else status

    monkeypatch.setattr(Path, "lstat", lstat)
    assert exposed(tree, tree / "b/c") == f"{tree / 'b/c/file'} (owner 12345, mode 0600)"


def test_link_inside_is_named_and_root_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    assert exposed(tmp_path / "link", tmp_path / "link/b/c") == ""
    (tree / "b/c/d/link").symlink_to(tree)

    assert exposed(tree, tree / "b/c").startswith(f"{tree / 'b/c/d/link'} (owner ")


def test_vanished_file_is_ignored(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lstat(self: Path) -> os.stat_result:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert exposed(tree, tree / "b/c") == ""


def test_system_without_owners_exposes_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.chmod(0o777)
    monkeypatch.delattr(os, "geteuid")

    assert exposed(tree, tree / "b/c") == ""
