"""Wheels and source archives whose bytes depend on their files' names and contents alone."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

MODE = 0o644  #: of every file


def rewrite_sdist(archive: Path) -> None:
    """Keep the files of a source archive, sorted, with one mode, no owner, and the first date there is."""
    with tarfile.open(archive) as packed:
        files = {entry.name: packed.extractfile(entry) for entry in packed if not entry.isdir()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(contents[name]), MODE
            packed.addfile(entry, io.BytesIO(contents[name]))
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=0))


def rewrite_wheel(wheel: Path) -> None:
    """Give every file of a wheel the same mode, and the first date possible in a zip archive."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | MODE) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
