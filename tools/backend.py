"""Build backend: setuptools, with archives that do not depend on modes, dates and owners of the checkout's files."""

import configparser
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # all other hooks

from tools import archives

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "refemu" / "units" / "__init__.pyi"  #: made by tools/stubs.py, which imports refemu


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
    archives.rewrite_wheel(Path(folder) / name)
    return name


def build_sdist(folder: str, settings: dict[str, Any] | None = None) -> str:
    """Build a source archive in `folder` and return its name. The arguments are those of PEP 517."""
    name: str = build_meta.build_sdist(folder, settings)
    archives.rewrite_sdist(Path(folder) / name)
    return name
