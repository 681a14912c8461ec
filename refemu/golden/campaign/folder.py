"""Folder of a campaign: one request, one version, one process at a time, no partial files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from refemu import __version__, locks
from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.files import manifest, store

SCHEMA = "refemu.campaign/1"
REQUEST, LOCK = "campaign.json", ".campaign.lock"

_TEMPORARY = f".{REQUEST}.new"  # left by a kill while the request is written


@contextmanager
def held(folder: Path, request: Mapping[str, Any]) -> Iterator[None]:
    """The folder, locked, with this campaign or empty. request: in the form of JSON.

    Refused: the folder cannot be written, another process works in it, or `_claim` rejects it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locks.take(folder / LOCK)
    except locks.NoLocks as error:
        raise Refused(
            f"{folder}: must be on a file system with locks, which keep two campaigns apart, got {error.strerror}"
        ) from error
    except OSError as error:
        raise Refused(f"{folder}: cannot be written: {error.strerror or error}") from error
    if lock is None:
        raise Refused(f"{folder}: another campaign is running in this folder")
    with lock:
        try:
            _claim(folder, request)
            sweep(folder)
            yield
        except KeyboardInterrupt:
            sweep(folder)  # workers may have been killed at any point
            raise


def _claim(folder: Path, request: Mapping[str, Any]) -> None:
    """Write the request. Refused: the folder has another one, or is not a campaign's."""
    stated = {"schema": SCHEMA, "refemu_version": __version__, "request": request}
    path = folder / REQUEST
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in (LOCK, _TEMPORARY))
    if not path.exists():
        if others:
            raise Refused(f"{folder}: has {others[0]} but no {REQUEST}; give the campaign its own folder")
        store.write_files({path: manifest.canonical(stated)})
        return
    with reading(str(path), "a campaign of refemu"):
        _require_same(path, json.loads(path.read_bytes()), stated)


def _require_same(path: Path, recorded: Any, stated: Mapping[str, Any]) -> None:
    """Require that the request at `path` equals `stated`."""
    if recorded == json.loads(manifest.canonical(stated)):
        return
    if not isinstance(recorded, dict) or recorded.get("schema") != SCHEMA:
        raise Refused(f"{path}: is not a campaign that this version of refemu knows")
    if recorded.get("refemu_version") != __version__:
        raise Refused(
            f"{path.parent}: was made by refemu {recorded.get('refemu_version')}, this is {__version__}; "
            "give the new campaign its own folder"
        )
    raise Refused(
        f"{path.parent}: has another campaign: {_difference(recorded.get('request'), stated['request'])}; "
        "give this one its own folder"
    )


def _difference(theirs: Any, ours: Mapping[str, Any]) -> str:
    """The first field in which two requests differ."""
    if not isinstance(theirs, dict) or theirs.keys() != ours.keys():
        return f"one of {', '.join(sorted(theirs))}" if isinstance(theirs, dict) else str(theirs)
    plain = json.loads(manifest.canonical(ours))
    word = next((name for name in sorted(ours) if theirs[name] != plain[name]), None)
    if word is None:
        return f"it has more fields than {', '.join(sorted(ours))}"
    return f"its {word} are {_short(theirs[word])}, asked are {_short(plain[word])}"


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def sweep(folder: Path) -> None:
    """Remove temporary files of killed workers, and restore sets that they had renamed."""
    for path, names, _ in os.walk(folder):
        store.sweep(Path(path))
        names[:] = [name for name in names if not name.startswith(".")]
