"""Lock files, by the library filelock: `flock` on POSIX systems, `LockFileEx` on Windows.

The operating system drops a lock with the process that holds it, however that ends. The holder removes its file; a file
that a killed process left is locked by nobody, and the next holder takes it over.
"""

import contextlib
import os
import stat
from pathlib import Path
from types import TracebackType

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_POLL = 0.005  # seconds between two looks at a lock that is waited for


class NoLocks(OSError):
    """The file system, or the system, knows no locks."""


class Lock:
    """A lock that this process holds until `release`, or until the end of its `with`."""

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
        if os.name == "nt":  # an open file cannot be removed there, and another holder's is open
            os.close(self._descriptor)
            with contextlib.suppress(OSError):
                self.path.unlink()
            return
        try:
            self.path.unlink(missing_ok=True)  # while it is locked: once it is free it may be another's
        finally:
            os.close(self._descriptor)


def take(path: Path) -> Lock | None:
    """Lock the file, made if it is not there; None while another holds it. OSError: it cannot be made; NoLocks."""
    return _lock(path, wait=False)


def wait(path: Path) -> Lock:
    """Lock the file as `take` does, once nobody else holds it."""
    while True:
        lock = _lock(path, wait=True)
        if lock is not None:
            return lock


def _lock(path: Path, wait: bool) -> Lock | None:
    """None also where the file was removed, by its last holder, between its opening and its locking here."""
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
        with contextlib.suppress(OSError):  # of another user of a shared folder: to lock it, reading is enough
            return os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        raise


def _locked(descriptor: int, path: Path, wait: bool) -> bool:
    import filelock  # here: it takes 30 ms, and most commands lock nothing

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
