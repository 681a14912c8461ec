"""Files appear whole; folders are held while their process lives, and swept after it; nothing else is deleted."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from refemu import locks, scratch

LEFT = re.compile(r"\.x-[a-z0-9_]+")
HOLD = """
import os, signal, sys
from pathlib import Path
from refemu import scratch
with scratch.folder(Path(sys.argv[1]), ".x-") as place:
    (place / "half").write_bytes(b"half")
    print(place.name, flush=True)
    signal.pause()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_folder_is_deleted_at_end_and_after_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), scratch.folder(tmp_path, ".x-") as place:
        (place / "file").touch()
        raise KeyError
    assert names(tmp_path) == []


def test_renamed_content_is_preserved(tmp_path: Path) -> None:
    with scratch.folder(tmp_path, ".x-") as place:
        place.rename(tmp_path / "done")
    assert names(tmp_path) == ["done"]


def test_sweep_deletes_only_folders_of_killed_processes(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        left = process.stdout.readline().strip()
        scratch.sweep(tmp_path, LEFT)
        assert names(tmp_path) == [left, f"{left}.lock"]

        process.send_signal(signal.SIGKILL)
        process.wait()
    assert names(tmp_path) == [left, f"{left}.lock"]
    scratch.sweep(tmp_path, LEFT)
    assert names(tmp_path) == []


def test_sweep_preserves_everything_else(tmp_path: Path) -> None:
    (tmp_path / ".x-file").touch()
    (tmp_path / ".y-left").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / ".x-link").symlink_to(tmp_path / "mine")
    (tmp_path / ".x-theirs" / "notes.txt").mkdir(parents=True)
    (tmp_path / ".x-left").mkdir()
    scratch.sweep(tmp_path, LEFT, lambda place: not any(place.iterdir()))

    assert names(tmp_path) == [".x-file", ".x-link", ".x-theirs", ".y-left", "mine"]
    scratch.sweep(tmp_path / "absent", LEFT)


def test_swept_lock_file_is_recreated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = os.open, []

    def late(path: object, *arguments: int, **options: int | None) -> int:
        descriptor = real(str(path), *arguments, **options)  # type: ignore[arg-type]
        made.append(path)
        if len(made) == 1:
            os.unlink(str(path))
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(locks.os, "open", late)
        with scratch.folder(tmp_path, ".x-") as place:
            assert len(made) >= 2 and names(tmp_path) == [place.name, f"{place.name}.lock"]
    assert names(tmp_path) == []


def test_sweep_deletes_only_unlocked_empty_lock_files(tmp_path: Path) -> None:
    for name in (".x-left.lock", ".refemu.lock", ".y-left.lock", ".x-.lock"):
        (tmp_path / name).touch()
    (tmp_path / ".x-mine.lock").write_text("mine")
    with scratch.alone(tmp_path):
        scratch.sweep(tmp_path, LEFT)
        assert names(tmp_path) == [".refemu.lock", ".x-.lock", ".x-mine.lock", ".y-left.lock"]
    (tmp_path / ".refemu.lock").touch()  # as after a kill
    scratch.sweep(tmp_path, LEFT)
    assert names(tmp_path) == [".x-.lock", ".x-mine.lock", ".y-left.lock"]


def test_missing_locks_disable_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> bool:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(filelock, "lock_descriptor", missing)
    with scratch.folder(tmp_path, ".x-") as place, scratch.alone(tmp_path):
        scratch.sweep(tmp_path, LEFT)
        assert names(tmp_path) == [place.name]
    assert names(tmp_path) == []


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), scratch.folder(tmp_path / "file", ".x-"):
        pass
    with pytest.raises(NotADirectoryError), scratch.alone(tmp_path / "file"):
        pass


def test_discard_frees_the_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file").touch()
    monkeypatch.setattr(scratch.shutil, "rmtree", lambda *arguments, **options: None)  # as after a kill
    scratch.discard(tmp_path / "set", ".x-")
    left = names(tmp_path)
    monkeypatch.undo()

    assert len(left) == 1 and LEFT.fullmatch(left[0])
    scratch.sweep(tmp_path, LEFT)
    assert names(tmp_path) == []


def test_alone_waits_for_its_turn(tmp_path: Path) -> None:
    order = []

    def other() -> None:
        with scratch.alone(tmp_path):
            order.append("other")

    with scratch.alone(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "other"] and names(tmp_path) == []


def test_writers_of_shared_file_do_not_collide(tmp_path: Path) -> None:
    """Each has a temporary name of its own, in threads too."""
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(scratch.write_file, tmp_path / "file", bytes([n]) * 999, True) for n in range(200)]:
            done.result()

    assert len(set((tmp_path / "file").read_bytes())) == 1
    assert names(tmp_path) == ["file"]


def test_temporary_file_of_killed_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".file.new").write_bytes(b"half")
    scratch.write_file(tmp_path / "file", b"whole")

    assert (tmp_path / "file").read_bytes() == b"whole"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such file here")
def test_open_file_of_process_is_appended_to(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from refemu import scratch; print('before', flush=True)\n"
        "scratch.write_file(pathlib.Path('/dev/stdout'), b'file\\n'); print('behind')"
    )
    command, kept = [sys.executable, "-c", code], tmp_path / "kept"
    kept.write_text("old\n")
    piped = subprocess.run(command, capture_output=True, text=True)
    with kept.open("a") as appended:
        subprocess.run(command, stdout=appended, check=True)

    assert piped.stdout == "before\nfile\nbehind\n", piped.stderr
    assert kept.read_text() == "old\nbefore\nfile\nbehind\n"


def test_link_is_followed_and_preserved(tmp_path: Path) -> None:
    """Also where it leads to nothing yet."""
    (tmp_path / "there").mkdir()
    kept, new = tmp_path / "there" / "kept", tmp_path / "there" / "new"
    kept.write_bytes(b"old")
    for place in (kept, new):
        (tmp_path / place.name).symlink_to(place)
    scratch.write_file(tmp_path / "kept", b"1")
    scratch.write_file(tmp_path / "new", b"2")

    assert all((tmp_path / name).is_symlink() for name in ("kept", "new"))
    assert (kept.read_bytes(), new.read_bytes()) == (b"1", b"2")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["kept", "new"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipe_is_preserved_and_gets_all_data(tmp_path: Path) -> None:
    pipe, data = tmp_path / "pipe", bytes(200_000)
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        scratch.write_file(pipe, data)
        assert read.result(timeout=20) == data

    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_full_device_is_an_error(tmp_path: Path) -> None:
    """Through a link, so that a rename could not hurt the machine."""
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        scratch.write_file(tmp_path / "full", b"1")

    assert (tmp_path / "full").is_symlink() and Path("/dev/full").is_char_device()
