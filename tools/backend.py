"""Build backend: setuptools, with wheels of the same bytes whatever modes and dates the files of the checkout have."""

import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # every other hook

MODE = 0o100644 << 16  #: of a regular file that all may read, where a zip archive has it


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel in `folder`; its name. The arguments are those of PEP 517."""
    name: str = build_meta.build_wheel(folder, settings, metadata)
    rewrite(Path(folder) / name)
    return name


def rewrite(wheel: Path) -> None:
    """Give every file of a wheel one mode, and the first date that an archive can have."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = MODE
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
