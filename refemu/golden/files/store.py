"""Directories of sets on disk: replaced completely or not at all, and only if refemu wrote them."""

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from refemu import scratch
from refemu.arith.checks import Refused
from refemu.golden.files import manifest, origin
from refemu.golden.files.sets import LISTING, MANIFEST, VECTORS

_OURS = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(VECTORS)}|{re.escape(LISTING)}|hex/(stim|gold|care)\.mem|bin/[a-z0-9_.]+\.bin"
    r"|include/[a-z0-9_]+_vec\.s?v?h"
)
_SET = r"[A-Za-z0-9_.-]+"  # the folder of a set, or of a shard of a campaign
_LEFT = re.compile(rf"\.{_SET}\.(new|gone)-[a-z0-9_]+")  # a set being written or deleted
_REPLACED = re.compile(rf"\.({_SET})\.old")  # a set that a run renamed to make way for the new one
_DIGEST = re.compile(rb'"self_sha256": "([0-9a-f]{64})"')
_ADVICE = "nothing was changed; choose another folder, or move that file away"


def names(folder: Path) -> list[str]:
    """Paths of all files in `folder` with `/`, sorted; empty folders end in `/`."""
    names = []
    for path in sorted(folder.rglob("*")):
        if not path.is_dir() or path.is_symlink():
            names.append(path.relative_to(folder).as_posix())
        elif not any(path.iterdir()):
            names.append(f"{path.relative_to(folder).as_posix()}/")
    return names


def read(folder: Path) -> dict[str, bytes]:
    """All files of the set in `folder`: name -> content; an empty folder is `name/` with empty content."""
    return {name: b"" if name.endswith("/") else (folder / name).read_bytes() for name in names(folder)}


def require_replaceable(folder: Path) -> None:
    """Require a folder that refemu may replace: absent, empty, or with the files of a set only."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Refused(f"{folder}: is not a directory; choose a directory for the set")
    present = names(folder) if folder.exists() else []
    foreign = [name for name in present if not _OURS.fullmatch(name) or (folder / name).is_symlink()]
    if foreign:
        raise Refused(f"{folder}: has {foreign[0]}, which refemu did not write; {_ADVICE}")
    if present and not (MANIFEST in present and manifest.is_ours((folder / MANIFEST).read_bytes())):
        raise Refused(f"{folder}: has {present[0]} but no manifest of refemu; {_ADVICE}")


def replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace the contents of `folder` by `files`: written next to it under another name, then renamed.

    A failure or an interrupt before the end leaves the old set. Refused: a folder that `require_replaceable` rejects,
    or an error of the file system, with advice.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch.alone(folder.parent):
            recover(folder)
        require_replaceable(folder)
        with scratch.folder(folder.parent, f".{folder.name}.new-") as fresh:
            _write(fresh, files)
            _swap(fresh, folder)
        if digest := _DIGEST.search(files.get(MANIFEST, b"")):
            origin.note(digest[1].decode())
    except OSError as error:
        kept = "the old set is unchanged" if os.path.exists(folder) else "nothing was written"
        raise Refused(
            f"{folder}: cannot be written: {error.strerror or error}; {kept}. "
            "Free some space or permissions there, or choose another folder"
        ) from error


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write single files with `scratch.write_file`: each completely, or the old one is unchanged.

    Refused: a folder, before anything is written, or an error of the file system, with the path.
    """
    for path in files:
        if path.is_dir():
            raise Refused(f"{path}: must be a file, got a folder; nothing was written")
    for path, data in files.items():
        try:
            scratch.write_file(path, data)
        except OSError as error:
            raise Refused(f"{path}: cannot be written: {error.strerror or error}") from error


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.chmod(0o777 & ~_umask())
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # a full disk raises here, before the old set is gone


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(fresh: Path, folder: Path) -> None:
    """Put `fresh` in the place of `folder`. Between two renames the old set has only its other name; see `recover`."""
    with scratch.alone(folder.parent):
        if not folder.exists():
            fresh.rename(folder)
            return
        old = _old(folder)
        folder.rename(old)
        try:
            fresh.rename(folder)
        except BaseException:
            old.rename(folder)
            raise
        with contextlib.suppress(OSError):  # the new set is in place; a later run drops the old one
            _drop(old, folder)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _drop(old: Path, folder: Path) -> None:
    scratch.discard(old, f".{folder.name}.gone-")


def recover(folder: Path) -> None:
    """Restore an old set that a killed run left under its other name, or drop it if the new one exists.

    Refused: something else has that name.
    """
    old = _old(folder)
    if not (old.is_dir() or old.is_symlink()):
        return
    if folder.exists() and _is_ours(old):
        _drop(old, folder)
        return
    require_replaceable(old)
    old.rename(folder)


def sweep(parent: Path) -> None:
    """Delete or restore what killed runs left in `parent` under temporary names: new sets and replaced sets."""
    scratch.sweep(parent, _LEFT, _is_ours)
    if not _replaced(parent):
        return
    with scratch.alone(parent):
        for place in _replaced(parent):
            recover(parent / place)


def _replaced(parent: Path) -> list[str]:
    """Names of the sets in `parent` whose old version has its other name."""
    places = sorted(parent.iterdir()) if parent.is_dir() else []
    named = [(place, _REPLACED.fullmatch(place.name)) for place in places]
    return [match[1] for place, match in named if match and place.is_dir() and _is_ours(place)]


def _is_ours(folder: Path) -> bool:
    """Whether `folder` has only files of sets, not necessarily all of them, and no link."""
    return not folder.is_symlink() and all(name.endswith("/") or _is_of_a_set(folder, name) for name in names(folder))


def _is_of_a_set(folder: Path, name: str) -> bool:
    known = _OURS.fullmatch(name.removeprefix(f"{scratch.DISCARDED}/"))
    return known is not None and not (folder / name).is_symlink()
