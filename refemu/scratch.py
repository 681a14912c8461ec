"""Atomic writes of files; temporary folders, locked while their process runs and swept after it was killed.

Next to such a folder is a file, which the process locks before it creates the folder and unlocks after the folder is
gone. The system drops the lock with the process, so a sweep distinguishes the folders of killed and running processes.
The file is not inside the folder, because its content is renamed away, which Windows forbids for open files.
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

DISCARDED = "discarded"  #: name, in its temporary folder, of a folder that `discard` deletes
LOCK = ".lock"  #: suffix of the lock file of a temporary folder
_OPEN = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")  #: folders of open files of processes
ALONE = ".refemu.lock"  #: name of the file in a folder that `alone` locks


def write_file(path: Path, data: bytes, shared: bool = False) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    A link is followed and preserved. Data for a pipe, a device or an open file of a process (/dev/stdout) is appended.
    shared: other processes may write the file at the same time, so the temporary name is unique; otherwise it is always
    the same, which replaces the file of a killed run. OSError: the file system rejects a step.
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
    """Whether a path is a pipe or a device, or leads to an open file of a process."""
    if path.exists() and not path.is_file():
        return True
    while path.is_symlink():
        if _OPEN.fullmatch(os.path.realpath(path.parent)):
            return True
        path = path.parent / os.readlink(path)
    return False


@contextlib.contextmanager
def folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a locked folder in `parent` with a unique name after `prefix`; delete it at the end.

    Its content may be renamed away, and so may the folder itself. If the file system has no locks, `sweep` removes
    nothing. OSError: the file system rejects a step.
    """
    with ExitStack() as stack:
        place = _made(parent, prefix, stack)
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        yield place


def _made(parent: Path, prefix: str, stack: ExitStack) -> Path:
    """Create a folder and put its lock into `stack`; try again if a sweep removed the file before it was locked."""
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
    """Delete the folder `place`. It is renamed first, so that `sweep` can finish an interrupted deletion.

    prefix: start of its temporary name, as for `sweep`.
    """
    with folder(place.parent, prefix) as doomed:
        place.rename(doomed / DISCARDED)


def sweep(parent: Path, names: re.Pattern[str], ours: Callable[[Path], bool] = lambda place: True) -> None:
    """Delete lock files of killed runs in `parent`, and folders with such `names` whose content is `ours`."""
    try:
        left = {place.name.removesuffix(LOCK) for place in parent.iterdir()}
    except OSError:
        return  # no such folder
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
    """Remove a lock file that is unlocked; only empty files are lock files of refemu."""
    if not file.is_symlink() and file.is_file() and file.stat().st_size == 0:
        lock = locks.take(file)
        if lock is not None:
            lock.release()


def _beside(place: Path) -> Path:
    return place.with_name(place.name + LOCK)


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Lock the folder `place` against other processes that call this; wait for the lock. Must not be nested.

    If the file system has no locks, nothing is locked. OSError: no file can be created in `place`.
    """
    with ExitStack() as stack:
        with contextlib.suppress(locks.NoLocks):
            stack.enter_context(locks.wait(place / ALONE))
        yield
