"""Rows on refemu's own units, remembered on disk: to make them every unit is imported, which takes most of a start.

They belong to the sources as these are, by path, size and date, like the compiled files that Python keeps. Sources that
changed within the last moments are read but not remembered: their next change could bear the same date.
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refemu import __version__, checked_json, scratch
from refemu.home import cache_folder, make_private

FOLDER = "lists"  #: below the cache folder
LAYERS = ("arith", "cli", "formats", "units")  #: packages that a descriptor, and a row on it, are made of
MOMENT = 2_000_000_000  #: nanoseconds; no file system's dates are coarser

Rows = list[dict[str, Any]]


def remembered(make: Callable[[], Rows], package: Path | None = None) -> Rows:
    """The rows that belong to the sources, or those of `make`, which are then remembered.

    package: refemu's folder. A cache that cannot be read or written costs time only.
    """
    package = Path(__file__).parents[1] if package is None else package
    sources = sorted(_sources(package))
    memory = cache_folder() / FOLDER / f"units-{_sha256(os.fspath(package))[:16]}.json"
    state = _sha256(f"{__version__} {sys.version} {sources}")
    rows = _recall(memory, state)
    if rows is None:
        rows = make()
        if sources and time.time_ns() - max(changed for _, _, changed in sources) > MOMENT:
            with contextlib.suppress(OSError):
                _remember(memory, state, rows)
    return rows


def _sources(package: Path) -> Iterator[tuple[str, int, int]]:
    """Path, size and date of change of every source; what an editor leaves, as a link to nowhere, is none."""
    for layer in LAYERS:
        for folder, _, names in os.walk(package / layer):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".py") and os.path.isfile(path):
                    status = os.stat(path)
                    yield path, status.st_size, status.st_mtime_ns


def _recall(memory: Path, state: str) -> Rows | None:
    """Rows remembered for a state of the sources; None: there are none, or the file is damaged."""
    known = checked_json.load(memory)
    return known["rows"] if known and known["state"] == state else None


def _remember(memory: Path, state: str, rows: Rows) -> None:
    make_private(memory.parent)
    scratch.write_file(memory, checked_json.dump({"state": state, "rows": rows}), shared=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
