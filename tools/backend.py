"""Build backend: setuptools, with archives that do not depend on modes, dates and owners of the checkout's files."""

import configparser
import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # all other hooks

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "refemu" / "units" / "__init__.pyi"  #: made by tools/stubs.py, which imports refemu
MODE = 0o100644 << 16  #: mode of a regular, readable file in a zip archive


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    """What a build needs; with refemu's own requirements if the stub is missing."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    needed: list[str] = build_meta.get_requires_for_build_wheel(settings)
    return needed + ([] if STUB.exists() else config["options"]["install_requires"].split())


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel in `folder` and return its name. The arguments are those of PEP 517."""
    if not STUB.exists():
        subprocess.run([sys.executable, "-m", "tools.stubs"], cwd=ROOT, check=True)
    name: str = build_meta.build_wheel(folder, settings, metadata)
    rewrite(Path(folder) / name)
    return name


def build_sdist(folder: str, settings: dict[str, Any] | None = None) -> str:
    """Build a source archive in `folder` and return its name. The arguments are those of PEP 517."""
    name: str = build_meta.build_sdist(folder, settings)
    rewrite_sdist(Path(folder) / name)
    return name


def rewrite_sdist(archive: Path) -> None:
    """Keep the files of a source archive, sorted, with one mode, no owner, and the first date there is."""
    with tarfile.open(archive) as packed:
        files = {entry.name: packed.extractfile(entry) for entry in packed if not entry.isdir()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(contents[name]), MODE >> 16 & 0o777
            packed.addfile(entry, io.BytesIO(contents[name]))
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=0))


def rewrite(wheel: Path) -> None:
    """Give every file of a wheel the same mode, and the first date possible in a zip archive."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = MODE
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
