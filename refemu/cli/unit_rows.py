"""Rows of `refemu list units`, cached on disk: computing them imports every unit, which dominates the start time.

The key is path, size and date of every source file, as for the compiled files of Python. Rows of sources that changed
a moment ago are not cached, since their next change could have the same date.
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

FOLDER = "lists"  #: name in the cache folder
LAYERS = ("arith", "cli", "formats", "units")  #: packages that determine the rows
MOMENT = 2_000_000_000  #: nanoseconds; dates of file systems are not coarser

Rows = list[dict[str, Any]]


def remembered(make: Callable[[], Rows], package: Path | None = None) -> Rows:
    """The cached rows of the current sources, or those of `make`, which are then cached.

    package: folder of refemu. A cache that cannot be read or written costs only time.
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
    """Yield path, size and date of every source file; broken links of editors do not count."""
    for layer in LAYERS:
        for folder, _, names in os.walk(package / layer):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".py") and os.path.isfile(path):
                    status = os.stat(path)
                    yield path, status.st_size, status.st_mtime_ns


def _recall(memory: Path, state: str) -> Rows | None:
    """Cached rows of a state of the sources; None if there are none or the file is damaged."""
    known = checked_json.load(memory)
    return known["rows"] if known and known["state"] == state else None


def _remember(memory: Path, state: str, rows: Rows) -> None:
    make_private(memory.parent)
    scratch.write_file(memory, checked_json.dump({"state": state, "rows": rows}), shared=True)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
