"""Lock files, by the library filelock: `flock` on POSIX systems, `LockFileEx` on Windows.

The operating system drops a lock when its process ends in any way. The holder removes its file; the file of a killed
process is unlocked, and the next holder reuses it.
"""

import contextlib
import os
import stat
from pathlib import Path
from types import TracebackType

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_POLL = 0.005  # seconds between two attempts to take a lock


class NoLocks(OSError):
    """The file system or the operating system has no locks."""


class Lock:
    """A lock of this process, until `release` or the end of its `with`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Remove the file and drop the lock."""
        if os.name == "nt":  # Windows cannot remove an open file, and the next holder has it open
            os.close(self._descriptor)
            with contextlib.suppress(OSError):
                self.path.unlink()
            return
        try:
            self.path.unlink(missing_ok=True)  # while locked; an unlocked file may already belong to the next holder
        finally:
            os.close(self._descriptor)


def take(path: Path) -> Lock | None:
    """Create and lock a file; None if it is locked already. OSError: the file cannot be created; NoLocks."""
    return _lock(path, wait=False)


def wait(path: Path) -> Lock:
    """Lock a file like `take`, but wait until it is free."""
    while True:
        lock = _lock(path, wait=True)
        if lock is not None:
            return lock


def _lock(path: Path, wait: bool) -> Lock | None:
    """Lock a file; None if it is locked, or its last holder removed it before the lock was taken."""
    descriptor = _opened(path)
    try:
        if _locked(descriptor, path, wait) and _is_at(descriptor, path):
            return Lock(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _opened(path: Path) -> int:
    try:
        return os.open(path, _FLAGS, 0o666)
    except PermissionError:
        with contextlib.suppress(OSError):  # a file of another user in a shared folder; reading is enough to lock it
            return os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        raise


def _locked(descriptor: int, path: Path, wait: bool) -> bool:
    import filelock  # here, since it takes 30 ms and most commands lock nothing

    try:
        return filelock.lock_descriptor(descriptor, blocking=wait, poll_interval=_POLL)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise NoLocks(error.errno, error.strerror, str(path)) from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(there.st_mode) and os.path.samestat(os.fstat(descriptor), there)
