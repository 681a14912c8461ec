"""Build backend: setuptools, with wheels of the same bytes whatever modes and dates the files of the checkout have."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # every other hook

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "refemu" / "units" / "__init__.pyi"  #: made by tools/stubs.py, which imports refemu
MODE = 0o100644 << 16  #: of a regular file that all may read, where a zip archive has it


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    """What a build needs; what refemu needs too, where the stub is still to be made."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    needed: list[str] = build_meta.get_requires_for_build_wheel(settings)
    return needed + ([] if STUB.exists() else config["options"]["install_requires"].split())


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel in `folder`; its name. The arguments are those of PEP 517."""
    if not STUB.exists():
        subprocess.run([sys.executable, "-m", "tools.stubs"], cwd=ROOT, check=True)
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
