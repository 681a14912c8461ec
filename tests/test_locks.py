"""Lock files: one holder at a time, gone with it, and free again when its process dies."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import filelock
import pytest

from refemu import locks

HOLD = """
import signal, sys
from pathlib import Path
from refemu import locks
lock = locks.take(Path(sys.argv[1]))
print(lock is not None, flush=True)
signal.pause()
"""
#: modules of the standard library that Windows, or that other systems than Windows, lack; `os` and others stay
HIDDEN = ("fcntl", "msvcrt", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "_posixshmem")
EVERY = """
import importlib, pkgutil, sys

import refemu
for name in sys.argv[1:]:
    sys.modules[name] = None
found = 0
for module in pkgutil.walk_packages(refemu.__path__, "refemu."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("lm_eval", "tqdm"):
                raise
        found += 1
print(found)
"""


def test_lock_of_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "True\n"
        assert locks.take(path) is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.exists()
    lock = locks.take(path)
    assert lock is not None and locks.take(path) is None
    lock.release()
    assert not path.exists()


def test_waiting_processes_lock_one_at_a_time(tmp_path: Path) -> None:
    """Each removes the file that the others wait at, so they must notice that it is another one by now."""
    inside, most, turns = 0, 0, 0

    def worker() -> None:
        nonlocal inside, most, turns
        for _ in range(5):
            with locks.wait(tmp_path / "lock"):
                inside += 1
                most = max(most, inside)
                turns += 1
                time.sleep(0.002)  # for another to come in
                inside -= 1

    threads = [threading.Thread(target=worker) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, turns) == (1, 30) and not (tmp_path / "lock").exists()


def test_read_only_file_of_other_user_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users may share a folder; a file that cannot be created is an OSError."""
    path, opened = tmp_path / "lock", os.open

    def of_another(place: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return opened(place, flags, *mode)

    monkeypatch.setattr(os, "open", of_another)
    with pytest.raises(PermissionError):
        locks.take(path)
    path.touch()
    lock = locks.take(path)
    assert lock is not None and locks.take(path) is None
    lock.release()


def test_replaced_file_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, the last holder removes the file and another process creates it again."""
    real = filelock.lock_descriptor

    def late(descriptor: int, *, blocking: bool, poll_interval: float) -> bool:
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").touch()
        return real(descriptor, blocking=blocking, poll_interval=poll_interval)

    monkeypatch.setattr(filelock, "lock_descriptor", late)
    assert locks.take(tmp_path / "lock") is None


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locks.take(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


def test_file_system_without_locks_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock, "lock_descriptor", missing)
    with pytest.raises(locks.NoLocks, match="No locks available"):
        locks.take(tmp_path / "lock")
    assert list(tmp_path.iterdir()) == []


def test_windows_closes_file_before_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where somebody who opened the file meanwhile keeps it."""
    lock = locks.take(tmp_path / "lock")
    assert lock is not None
    monkeypatch.setattr(locks.os, "name", "nt")
    calls: list[str] = []
    close = locks.os.close
    monkeypatch.setattr(locks.os, "close", lambda descriptor: (calls.append("close"), close(descriptor)))

    def refuse(path: Path) -> None:
        calls.append("unlink")
        raise PermissionError(errno.EACCES, "used by another process")

    monkeypatch.setattr(type(tmp_path), "unlink", refuse)
    lock.release()
    monkeypatch.undo()
    assert calls == ["close", "unlink"]


@pytest.mark.long
def test_everything_imports_without_the_modules_of_posix_systems() -> None:
    command = [sys.executable, "-c", EVERY, *HIDDEN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 400
