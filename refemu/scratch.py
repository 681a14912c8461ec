"""Temporary folders, locked while their process lives and swept once it is gone.

The process that makes such a folder holds a lock (`flock`) on the folder itself. The kernel drops the lock with the
process, however that ends, so a sweep tells what a killed run left from what a running one still writes.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

DISCARDED = "discarded"  #: name, inside its temporary folder, of what `discard` deletes


@contextlib.contextmanager
def folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a locked folder in `parent`, its name new and starting with `prefix`; delete it at the end if it is there.

    Its content may be renamed away, and so may the folder itself. OSError: what the file system refuses.
    """
    place, lock = _made(parent, prefix)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that locks it; once more if a sweep took it before it was locked."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            lock = _lock(place)
            if lock is not None:
                return place, lock


def discard(place: Path, prefix: str) -> None:
    """Delete the folder `place`: gone from its name at once, and swept later if the deletion is cut off.

    prefix: of its temporary name beside it, as `sweep` knows it.
    """
    with folder(place.parent, prefix) as doomed:
        place.rename(doomed / DISCARDED)


def sweep(parent: Path, names: re.Pattern[str], ours: Callable[[Path], bool] = lambda place: True) -> None:
    """Delete the folders of `parent` that killed runs left: of such `names`, `ours` by content, and not locked."""
    try:
        left = sorted(place for place in parent.iterdir() if names.fullmatch(place.name))
    except OSError:
        return  # no such folder, so nothing was left in it
    for place in left:
        with contextlib.suppress(OSError):
            _sweep_one(place, ours)


def _sweep_one(place: Path, ours: Callable[[Path], bool]) -> None:
    if place.is_symlink() or not place.is_dir() or not ours(place):
        return
    lock = _lock(place)
    if lock is not None:
        try:
            shutil.rmtree(place)
        finally:
            os.close(lock)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keep other processes that ask for the same out of the folder `place`; waits for its turn. It may not be nested.

    Where the file system knows no locks, nobody is kept out.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock(place: Path) -> int | None:
    """An open descriptor of the folder that holds its lock; None while another process holds it, or if it moved."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), place.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
