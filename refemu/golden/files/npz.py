"""The .npz of a set: a writer whose bytes depend on the arrays alone, and a reader that checks everything.

Members are stored, since zlib's output depends on its build. Sets in git are deflated by hand (`deflated`), to a
fourth of their size; readers take both, and `check` compares the arrays of a deflated file.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from refemu.arith.archive import NAME, Archive, Header
from refemu.arith.checks import Refused

__all__ = ["NAME", "Archive", "Header", "deflated", "read", "stored", "to_bytes", "write"]
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip: sets have none
_UNIX, _RW_R_R = 3, 0o100644 << 16  # "created by" and mode, by default the machine's


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz of `arrays`, each of at least one axis: equal arrays give equal bytes on every platform.

    Refused: a name outside [a-z0-9_.], an array without axes, object and string dtypes.
    """
    return _container(arrays, zipfile.ZIP_STORED)


def deflated(data: bytes, thing: str) -> bytes:
    """The same .npz with its members deflated. Refused: as for `read`."""
    return _container(read(data, thing), zipfile.ZIP_DEFLATED)


def stored(data: bytes, like: bytes, thing: str) -> bytes:
    """`to_bytes` of the arrays of an .npz whose members are all deflated; any other file unchanged.

    like: an .npz of the expected arrays. Nothing is inflated unless every header equals the one in `like`.
    """
    try:
        archive, wanted = Archive(data, thing), Archive(like, thing)
        if not archive.is_deflated or archive.names != wanted.names:
            return data
        if any(archive.header(name) != wanted.header(name) for name in archive.names):
            return data
        return to_bytes({name: archive.array(name) for name in archive.names})
    except Refused:
        return data


def _container(arrays: Mapping[str, np.ndarray], method: int) -> bytes:
    container = io.BytesIO()
    with zipfile.ZipFile(container, "w") as archive:
        for name in sorted(arrays):
            info = zipfile.ZipInfo(f"{name}.npy", _DATE)
            info.create_system, info.external_attr, info.compress_type = _UNIX, _RW_R_R, method
            header, data = _member(name, arrays[name])
            info.file_size = len(header) + data.nbytes
            with archive.open(info, "w") as stream:  # as `writestr` does, without joining header and data
                stream.write(header)
                stream.write(data)
    return container.getvalue()


def write(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `to_bytes(arrays)` to `path`."""
    Path(path).write_bytes(to_bytes(arrays))


def _member(name: str, values: np.ndarray) -> tuple[bytes, memoryview]:
    """Header and content of one .npy."""
    array = np.asarray(values)
    if not NAME.fullmatch(name):
        raise Refused(f"npz: array names hold [a-z0-9_.] only, got {name!r}")
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise Refused(f"npz: {name} must have an axis and hold numbers, got shape {array.shape}, dtype {array.dtype}")
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue(), array.reshape(-1).view(np.uint8).data


def read(data: bytes | BinaryIO, thing: str) -> dict[str, np.ndarray]:
    """All arrays of an .npz, whatever their size; see `Archive`."""
    archive = Archive(data, thing)
    return {name: archive.array(name) for name in archive.names}
