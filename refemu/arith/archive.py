"""Reader of untrusted .npz files: names, then headers, then contents, each on demand."""

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np

from refemu.arith.checks import Refused

NAME = re.compile(r"[a-z0-9_.]+")  #: name of an array: no `/`, and nothing that needs escaping
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # NumPy's, and those that zipfile inflates no further than asked
_HEADER = 1 << 16  # bytes of a member that are read for its header: NumPy takes no longer one


class Header(NamedTuple):
    """Header of a member."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype


class Archive:
    """An .npz whose names, headers and contents are read on demand.

    A reader that expects a shape looks at the header first: what it does not expect is never inflated. Nothing is ever
    unpickled.
    """

    def __init__(self, data: bytes | BinaryIO, thing: str, deflated: bool = True) -> None:
        """data: contents, or an open file that is read member by member. thing: start of messages.

        deflated: whether members may be compressed; refemu writes them uncompressed.
        Raises Refused unless it is a zip of <array>.npy, each name once.
        """
        self._thing, self._members = thing, dict[str, zipfile.ZipInfo]()
        with _readable(thing):
            self._archive = zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data)
        for member in self._archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename or not NAME.fullmatch(name):
                raise Refused(f"{thing}: member {member.filename!r} is not <array>.npy with a name of [a-z0-9_.]")
            if name in self._members:
                raise Refused(f"{thing}: array names must be unique, got {name} twice")
            if member.compress_type not in (_METHODS if deflated else _METHODS[:1]):
                raise Refused(
                    f"{thing}: {name} is compressed by method {member.compress_type}; stored"
                    f"{' and deflated' if deflated else ''} members are read"
                )
            self._members[name] = member

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arrays, in the order of the file."""
        return tuple(self._members)

    @property
    def is_deflated(self) -> bool:
        """Whether there are arrays, and every one is compressed."""
        methods = {member.compress_type for member in self._members.values()}
        return methods == {zipfile.ZIP_DEFLATED}

    def header(self, name: str) -> Header:
        """The header of array `name`; raises Refused for a non-numeric dtype, or a length unlike the shape."""
        with _readable(self._thing), self._archive.open(self._members[name]) as stream:
            start = io.BytesIO(stream.read(_HEADER))
        header = _header(start, f"{self._thing}: {name}")
        _require_length(header, self._members[name].file_size - start.tell(), f"{self._thing}: {name}")
        return header

    def array(self, name: str) -> np.ndarray:
        """Array `name`, C order, native byte order, read-only. Refused: as for `header`, and a wrong checksum."""
        shape, fortran, dtype = self.header(name)
        native = np.dtype(dtype.type)
        with _readable(self._thing):
            body = self._archive.read(self._members[name])
        stream = io.BytesIO(body)
        _header(stream, self._thing)
        try:
            stored: np.ndarray = np.ndarray(
                shape, native if dtype == native else dtype, body, stream.tell(), order="F" if fortran else "C"
            )
        except (TypeError, ValueError, OverflowError) as error:  # (0, 2**63) and the like
            raise Refused(f"{self._thing}: {name}: shape {shape} is invalid: {error}") from error
        array = np.require(stored, native, ("C", "ALIGNED"))  # no copy of an array of NumPy's on this machine
        array.flags.writeable = False
        return array


@contextmanager
def _readable(thing: str) -> Iterator[None]:
    """Turn every exception that a damaged container causes in zipfile and zlib into Refused."""
    try:
        yield
    except Exception as error:
        why = str(error) or type(error).__name__
        raise Refused(
            f"{thing}: not a readable .npz (truncated, damaged or another file): {why}; write it again"
        ) from error


def _require_length(header: Header, left: int, thing: str) -> None:
    if header.dtype.hasobject:
        raise Refused(
            f"{thing}: is pickled (dtype {header.dtype}) and is not unpickled; store integers or bit patterns"
        )
    if header.dtype.kind not in "biuf":
        raise Refused(f"{thing}: dtype {header.dtype} is not a number")
    needed = header.dtype.itemsize
    for extent in header.shape:
        needed *= extent
    if needed != left:
        raise Refused(f"{thing}: shape {header.shape} of {header.dtype} needs {needed} bytes, the file has {left}")


def _header(stream: io.BytesIO, thing: str) -> Header:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        return Header(*readers[version](stream))
    except Exception as error:  # NumPy parses the header as a Python literal: bad ones raise half a dozen types
        raise Refused(f"{thing}: no .npy header that NumPy reads: {str(error) or type(error).__name__}") from error
