"""Directories of sets on disk: replaced as a whole or not at all, and never anything that refemu did not write."""

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from refemu import scratch
from refemu.arith.checks import Refused
from refemu.golden.files import manifest
from refemu.golden.files.sets import LISTING, MANIFEST, VECTORS

_OURS = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(VECTORS)}|{re.escape(LISTING)}|hex/(stim|gold|care)\.mem|bin/[a-z0-9_.]+\.bin"
    r"|include/[a-z0-9_]+_vec\.s?v?h"
)
_SET = r"[A-Za-z0-9_.-]+"  # the folder of a set, or of a shard of a campaign
_LEFT = re.compile(rf"\.{_SET}\.(new|gone)-[a-z0-9_]+")  # a set in the making, a set on its way out
_REPLACED = re.compile(rf"\.({_SET})\.old")  # a set that a run moved away to put the new one there
_ADVICE = "nothing was changed. Choose another folder, or move that away"


def names(folder: Path) -> list[str]:
    """Every file below `folder`, as a path inside it with `/`, sorted; folders that are empty end in `/`."""
    names = []
    for path in sorted(folder.rglob("*")):
        if not path.is_dir() or path.is_symlink():
            names.append(path.relative_to(folder).as_posix())
        elif not any(path.iterdir()):
            names.append(f"{path.relative_to(folder).as_posix()}/")
    return names


def read(folder: Path) -> dict[str, bytes]:
    """All files of the set in `folder`: name -> content; an empty folder is an empty content under `name/`."""
    return {name: b"" if name.endswith("/") else (folder / name).read_bytes() for name in names(folder)}


def require_replaceable(folder: Path) -> None:
    """Refuse to replace what refemu did not make: a file, a link, a folder with anything but the files of a set."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Refused(f"{folder}: is not a directory; a set needs one of its own")
    present = names(folder) if folder.exists() else []
    foreign = [name for name in present if not _OURS.fullmatch(name) or (folder / name).is_symlink()]
    if foreign:
        raise Refused(f"{folder}: holds {foreign[0]}, which refemu did not make; {_ADVICE}")
    if present and not (MANIFEST in present and manifest.is_ours((folder / MANIFEST).read_bytes())):
        raise Refused(f"{folder}: holds {present[0]} but no manifest of refemu; {_ADVICE}")


def replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make `folder` hold exactly `files`: written beside it under another name, then renamed.

    A failure or an interrupt before the end leaves the old set. Refused: a folder that `require_replaceable` refuses,
    and what the file system refuses (no space, no permission), with what to do.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch.alone(folder.parent):
            recover(folder)
        require_replaceable(folder)
        with scratch.folder(folder.parent, f".{folder.name}.new-") as fresh:
            _write(fresh, files)
            _swap(fresh, folder)
    except OSError as error:
        kept = "the old set is unchanged" if os.path.exists(folder) else "nothing was written"
        raise Refused(
            f"{folder}: cannot be written: {error.strerror or error}; {kept}. "
            "Free some space or permissions there, or choose another folder"
        ) from error


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write single files, each as `scratch.write_file` does: whole, or what was there before.

    Refused: a folder, before anything is written, and what the file system refuses, with the path.
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
            os.fsync(stream.fileno())  # a full disk speaks up here, not after the old set is gone


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(fresh: Path, folder: Path) -> None:
    """Put `fresh` where `folder` is. Between the two renames the old set has only its other name; see `recover`."""
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
        with contextlib.suppress(OSError):  # the new set stands; a later run drops the old one
            _drop(old, folder)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _drop(old: Path, folder: Path) -> None:
    scratch.discard(old, f".{folder.name}.gone-")


def recover(folder: Path) -> None:
    """Put an old set back that a killed run left under its other name, or drop it where the new one stands.

    Refused: other things under that name.
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
    """Delete or put back what killed runs left in `parent` under temporary names: sets in the making, sets replaced."""
    scratch.sweep(parent, _LEFT, _is_ours)
    if not _replaced(parent):
        return
    with scratch.alone(parent):
        for place in _replaced(parent):
            recover(parent / place)


def _replaced(parent: Path) -> list[str]:
    """Names of the sets in `parent` of which an old one lies under its other name."""
    places = sorted(parent.iterdir()) if parent.is_dir() else []
    named = [(place, _REPLACED.fullmatch(place.name)) for place in places]
    return [match[1] for place, match in named if match and place.is_dir() and _is_ours(place)]


def _is_ours(folder: Path) -> bool:
    """Whether `folder` holds nothing but files of sets, perhaps not all of them, and no link."""
    return not folder.is_symlink() and all(name.endswith("/") or _is_of_a_set(folder, name) for name in names(folder))


def _is_of_a_set(folder: Path, name: str) -> bool:
    known = _OURS.fullmatch(name.removeprefix(f"{scratch.DISCARDED}/"))
    return known is not None and not (folder / name).is_symlink()
