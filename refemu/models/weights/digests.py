"""The sha256 of a file, cached by path, size, date of change and inode, so that a second start does not read it.

Each digest is a small file below the cache folder. The digest of a file that changed within the last moments is not
cached: its next change could have the same date.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from refemu import checked_json, scratch
from refemu.arith.checks import Refused
from refemu.home import cache_folder, make_private

FOLDER = "digests"  #: folder below the cache folder
MOMENT = 2_000_000_000  #: nanoseconds; the coarsest dates of file systems

_taken: dict[Path, "Stamp"] = {}  # stamps of the digests of this process


class Stamp(NamedTuple):
    """Properties that change with the content of a file."""

    size: int
    changed: int  #: nanoseconds since 1970
    inode: int


def stamp(file: Path) -> Stamp:
    """The present stamp of a file; raises Refused if it is missing."""
    try:
        status = file.stat()
    except OSError as error:
        raise Refused(f"{file}: {error.strerror or error}") from None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)


def digest(file: Path) -> str:
    """sha256 of a file, in hex; the file is read only if its stamp differs from the cached one."""
    now, memory = stamp(file), _memory(file)
    known = _recall(memory, file, now)
    _taken[file.absolute()] = now
    if known is not None:
        return known
    sha256 = read(file)
    require_same(file)
    if time.time_ns() - now.changed > MOMENT:
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time only
            _remember(memory, {"path": str(file.absolute()), "stamp": list(now), "sha256": sha256})
    return sha256


def read(file: Path) -> str:
    """sha256 of a file, in hex, computed from its bytes."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise Refused(f"{file}: {error.strerror or error}") from None


def require_same(file: Path) -> None:
    """Raise Refused if a file changed since this process computed its digest."""
    before = _taken.get(file.absolute())
    if before is not None and stamp(file) != before:
        raise Refused(f"{file}: the file changed since its sha256 was computed; start again")


def _memory(file: Path) -> Path:
    name = hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:32]
    return cache_folder() / FOLDER / f"{name}.json"


def _recall(memory: Path, file: Path, now: Stamp) -> str | None:
    known = checked_json.load(memory)  # None: the file is read
    same = known and known["path"] == str(file.absolute()) and known["stamp"] == list(now)
    return str(known["sha256"]) if known and same else None


def _remember(memory: Path, known: dict[str, object]) -> None:
    make_private(memory.parent)
    scratch.write_file(memory, checked_json.dump(known), shared=True)
