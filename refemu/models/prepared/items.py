"""An item of a prepared model: arrays in a folder, each a .npy file, described by `item.json`.

An item appears complete or not at all: it is written under another name, then renamed. Its arrays are mapped; nothing
is unpickled. The sha256 of a file is compared if its size, date or inode differ from those it was written with, and by
`refemu models check` always.
"""

import contextlib
import errno
import hashlib
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refemu import checked_json, scratch
from refemu.arith.checks import Refused
from refemu.models.weights import digests

VERSION = 1  #: version of the layout of folders and arrays
PARTIAL = ".partial-"  #: prefix of the name of an item while it is written
DESCRIPTION = "item.json"
MAPPED = 1 << 16  #: smallest array in bytes that is mapped
SPARE = 256 << 20  #: bytes of disk space left free
REPAIR = "nothing was changed; run: refemu models prune --damaged, then the model is prepared again"

Arrays = Mapping[str, np.ndarray]


def write(place: Path, arrays: Arrays) -> None:
    """Write an item as the folder `place`, unless another process writes it first.

    Raises Refused if the disk is or becomes full; then no part of the item remains.
    """
    needed = 0
    for array in arrays.values():
        needed += array.nbytes
    require_room(place.parent, needed)
    try:
        with scratch.folder(place.parent, PARTIAL) as stage:
            item = stage / "item"
            item.mkdir()
            files = {name: _write_array(item / f"{name}.npy", array) for name, array in arrays.items()}
            (item / DESCRIPTION).write_bytes(checked_json.dump({"version": VERSION, "arrays": files}))
            _rename(item, place)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refused(_full(place.parent, needed)) from None
        raise Refused(f"{error.filename or place}: {error.strerror or error}; {_ways_out()}") from None


def require_room(folder: Path, needed: int) -> None:
    """Raise Refused if writing `needed` bytes below `folder` would leave less than SPARE."""
    if shutil.disk_usage(folder).free < needed + SPARE:
        raise Refused(_full(folder, needed))


def read(place: Path) -> dict[str, np.ndarray] | None:
    """The arrays of an item, the large ones mapped, read-only; None if there is no such item.

    Raises Refused for an item with another version of the layout, and for a damaged one.
    """
    description = describe(place)
    if description is None:
        return None
    return {name: _read_array(place / f"{name}.npy", file) for name, file in description["arrays"].items()}


def describe(place: Path) -> dict[str, Any] | None:
    """The description of an item, None if there is none; raises Refused like `read`."""
    for _ in range(2):  # an item that another process writes in between is complete at the second try
        description = checked_json.load(place / DESCRIPTION)
        if description is not None:
            break
        if not place.exists():
            return None
    else:
        raise Refused(f"{place}: damaged: {DESCRIPTION} is missing or not what was written; {REPAIR}")
    if description.get("version") != VERSION:
        raise Refused(f"{place}: prepared in version {description.get('version')!r}, {VERSION} is needed; {REPAIR}")
    files = description.get("arrays")
    if not isinstance(files, dict) or not all(isinstance(file, dict) for file in files.values()):
        raise Refused(f"{place}: damaged: {DESCRIPTION} does not describe arrays; {REPAIR}")
    return description


def check(place: Path) -> None:
    """Raise Refused unless the files of an item are, byte for byte, what was written."""
    description = describe(place) or {"arrays": {}}
    for name, file in description["arrays"].items():
        _require_digest(place / f"{name}.npy", file)


def size(place: Path) -> int:
    """Total bytes of the files of an item, or of anything else below `place`."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total


def _write_array(file: Path, array: np.ndarray) -> dict[str, Any]:
    """Write an array; return its digest, and its stamp dated back so that any later change shows."""
    plain = np.ascontiguousarray(array).reshape(array.shape)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(plain))
    total = hashlib.sha256(header.getvalue())
    with file.open("wb") as stream:
        stream.write(header.getvalue())
        if plain.size:
            content = plain.reshape(-1).view(np.uint8).data
            for start in range(0, len(content), 1 << 24):
                part = content[start : start + (1 << 24)]
                total.update(part)
                stream.write(part)
    before = file.stat().st_mtime_ns - 2 * digests.MOMENT
    os.utime(file, ns=(before, before))
    return {"sha256": total.hexdigest(), "stamp": list(digests.stamp(file))}


def _read_array(file: Path, known: Mapping[str, Any]) -> np.ndarray:
    if list(digests.stamp(file)) != known.get("stamp"):
        _require_digest(file, known)
    try:
        large = file.stat().st_size >= MAPPED
        array: np.ndarray = np.load(file, mmap_mode="r" if large else None, allow_pickle=False).view(np.ndarray)
    except (OSError, ValueError, EOFError) as error:
        raise Refused(f"{file}: damaged: {str(error) or type(error).__name__}; {REPAIR}") from None
    array.flags.writeable = False
    return array


def _require_digest(file: Path, known: Mapping[str, Any]) -> None:
    if not file.is_file():
        raise Refused(f"{file}: damaged: the file is missing; {REPAIR}")
    sha256 = digests.read(file)
    if sha256 != known.get("sha256"):
        raise Refused(f"{file}: damaged: sha256 is {sha256}, {known.get('sha256')} was written; {REPAIR}")


def _rename(item: Path, place: Path) -> None:
    try:
        item.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _full(folder: Path, needed: int) -> str:
    free = shutil.disk_usage(folder).free
    return (
        f"{folder}: not enough disk space for a prepared model: {-(-(needed + SPARE) // 1_000_000)} MB are needed, "
        f"{free // 1_000_000} MB are free; {_ways_out()}"
    )


def _ways_out() -> str:
    return (
        "free some (refemu models prune), set REFEMU_HOME to another folder, or REFEMU_PREPARED=0 to cache nothing. "
        "No incomplete file remains"
    )
