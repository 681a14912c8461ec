"""The .npz of a set: a writer whose bytes depend on the arrays only, and a reader that trusts nothing.

Stored, never compressed: zlib's output depends on its build, and packing saves more than deflate does.
"""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from refemu.arith.checks import Refused

NAME = re.compile(r"[a-z0-9_.]+")  #: of an array: no `/` makes a folder, nothing needs escaping anywhere
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold: sets carry no dates
_UNIX, _RW_R_R = 3, 0o100644 << 16  # "created by" and mode, else taken from the machine


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz of `arrays`, each of at least one axis: equal arrays give equal bytes on every platform.

    Refused: a name outside [a-z0-9_.], an array without axes, object and string dtypes.
    """
    container = io.BytesIO()
    with zipfile.ZipFile(container, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            info = zipfile.ZipInfo(f"{name}.npy", _DATE)
            info.create_system, info.external_attr = _UNIX, _RW_R_R
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


def read(data: bytes, thing: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz, C order, native byte order, read-only; nothing is ever unpickled.

    thing: what the messages start with. Refused with what is wrong: everything that is not a zip of .npy files with
    right checksums, lengths and plain dtypes, each name once.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            bodies = [(member.filename, archive.read(member)) for member in members]
    except Exception as error:  # whatever a damaged container makes zipfile and zlib raise
        raise Refused(f"{thing}: not a readable .npz: {str(error) or type(error).__name__}") from error
    arrays: dict[str, np.ndarray] = {}
    for filename, body in bodies:
        name = filename.removesuffix(".npy")
        if name == filename or not NAME.fullmatch(name):
            raise Refused(f"{thing}: member {filename!r} is not <array>.npy with a name of [a-z0-9_.]")
        if name in arrays:
            raise Refused(f"{thing}: array {name} is there twice")
        arrays[name] = _array(body, f"{thing}: {name}")
    return arrays


def _array(body: bytes, thing: str) -> np.ndarray:
    shape, fortran, dtype = _header(stream := io.BytesIO(body), thing)
    if dtype.hasobject:
        raise Refused(f"{thing}: is pickled (dtype {dtype}) and is not unpickled; store integers or bit patterns")
    if dtype.kind not in "biuf":
        raise Refused(f"{thing}: dtype {dtype} is not a number")
    count, left = 1, len(body) - stream.tell()
    for extent in shape:
        count *= extent
    if count * dtype.itemsize != left:
        raise Refused(f"{thing}: shape {shape} of {dtype} needs {count * dtype.itemsize} bytes, the file has {left}")
    try:
        stored: np.ndarray = np.ndarray(shape, dtype, body, stream.tell(), order="F" if fortran else "C")
    except (ValueError, OverflowError) as error:  # (0, 2**63) and the like
        raise Refused(f"{thing}: shape {shape} is no shape of an array: {error}") from error
    array = np.array(stored, dtype.newbyteorder("="), order="C")
    array.flags.writeable = False
    return array


def _header(stream: io.BytesIO, thing: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        return readers[version](stream)
    except Exception as error:  # NumPy parses the header as a Python literal: bad ones raise half a dozen types
        raise Refused(f"{thing}: no .npy header that NumPy reads: {str(error) or type(error).__name__}") from error
