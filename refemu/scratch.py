"""Files that appear whole; temporary folders, locked while their process lives and swept once it is gone.

The process that makes such a folder holds a lock on a file beside it, from before the folder is there until after it is
gone. The system drops the lock with the process, so a sweep tells what a killed run left from what a running one still
writes. The file stands beside the folder because its content is renamed away, which Windows refuses for an open file.
"""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from refemu import locks

DISCARDED = "discarded"  #: name, inside its temporary folder, of what `discard` deletes
LOCK = ".lock"  #: ends the name of the file beside a temporary folder
_OPEN = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")  #: folders of what processes have open
ALONE = ".refemu.lock"  #: name of the file inside a folder that `alone` locks


def write_file(path: Path, data: bytes, shared: bool = False) -> None:
    """Write a file under a temporary name beside it that is then renamed: whole, or what was there before.

    A link stays, and what it leads to is written. A pipe, a device and a file that a process has open (/dev/stdout)
    stay too, and are written to behind what is there. shared: others may write it at the same time, so the temporary
    name is one of its own; else it is always the same, and what a killed run left is replaced. OSError: what the file
    system refuses.
    """
    if _is_stream(path):
        with path.open("ab") as stream:
            stream.write(data)
        return
    place = Path(os.path.realpath(path))
    suffix = f".{secrets.token_hex(4)}" if shared else ""
    fresh = place.with_name(f".{place.name}{suffix}.new")
    try:
        with fresh.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, or leads to what a process has open."""
    if path.exists() and not path.is_file():
        return True
    while path.is_symlink():
        if _OPEN.fullmatch(os.path.realpath(path.parent)):
            return True
        path = path.parent / os.readlink(path)
    return False


@contextlib.contextmanager
def folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a locked folder in `parent`, its name new and starting with `prefix`; delete it at the end if it is there.

    Its content may be renamed away, and so may the folder itself. Where the file system knows no locks, no sweep takes
    anything either. OSError: what the file system refuses.
    """
    with ExitStack() as stack:
        place = _made(parent, prefix, stack)
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        yield place


def _made(parent: Path, prefix: str, stack: ExitStack) -> Path:
    """A new folder, its lock in `stack`; once more if a sweep took the file before it was locked."""
    while True:
        place = parent / f"{prefix}{secrets.token_hex(8)}"
        lock: AbstractContextManager[object] | None
        try:
            lock = locks.take(_beside(place))
        except locks.NoLocks:
            lock = contextlib.nullcontext()
        if lock is not None:
            stack.enter_context(lock)
            place.mkdir(0o700)
            return place


def discard(place: Path, prefix: str) -> None:
    """Delete the folder `place`: gone from its name at once, and swept later if the deletion is cut off.

    prefix: of its temporary name beside it, as `sweep` knows it.
    """
    with folder(place.parent, prefix) as doomed:
        place.rename(doomed / DISCARDED)


def sweep(parent: Path, names: re.Pattern[str], ours: Callable[[Path], bool] = lambda place: True) -> None:
    """Delete what killed runs left in `parent`: lock files, and folders of such `names` that are `ours` by content."""
    try:
        left = {place.name.removesuffix(LOCK) for place in parent.iterdir()}
    except OSError:
        return  # no such folder, so nothing was left in it
    for name in sorted(name for name in left if names.fullmatch(name)):
        with contextlib.suppress(OSError):
            _sweep_one(parent / name, ours)
    with contextlib.suppress(OSError):
        _sweep_lock(parent / ALONE)


def _sweep_one(place: Path, ours: Callable[[Path], bool]) -> None:
    if not os.path.lexists(place):
        _sweep_lock(_beside(place))
        return
    if place.is_symlink() or not place.is_dir() or not ours(place):
        return
    lock = locks.take(_beside(place))
    if lock is not None:
        with lock:
            shutil.rmtree(place)


def _sweep_lock(file: Path) -> None:
    """Remove a lock file that nobody holds; it is empty, or it is none of ours."""
    if not file.is_symlink() and file.is_file() and file.stat().st_size == 0:
        lock = locks.take(file)
        if lock is not None:
            lock.release()


def _beside(place: Path) -> Path:
    return place.with_name(place.name + LOCK)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keep other processes that ask for the same out of the folder `place`; waits for its turn. It may not be nested.

    Where the file system knows no locks, nobody is kept out. OSError: no file can be made in `place`.
    """
    with ExitStack() as stack:
        with contextlib.suppress(locks.NoLocks):
            stack.enter_context(locks.wait(place / ALONE))
        yield
