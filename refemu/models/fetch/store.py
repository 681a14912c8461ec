"""Fetch, find, check and remove the weights and texts on this machine.

A model is a folder of the cache that appears complete or not at all: it is made under another name, the sha256 of every
file is checked, then it is renamed. A file with a wrong sha256 is never deleted here.
"""

import contextlib
import errno
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refemu import scratch
from refemu.arith.checks import Refused
from refemu.home import cache_folder, user_path
from refemu.models.fetch import catalog, download
from refemu.models.fetch.catalog import Entry, Package
from refemu.models.fetch.files import Progress, digest, take, verify

_PARTIAL = ".partial-"
_LEFT = re.compile(re.escape(_PARTIAL) + "[a-z0-9_]+")


def path(name: str) -> Path | None:
    """The weight file of model `name`: in the cache, or in an installed package, which is not imported; else None.

    For a built-in model, the module that makes the weights. The sha256 is not checked: see `verify`.
    """
    entry = catalog.find(name)
    if entry.package is None:
        return Path(__file__).parents[1].joinpath("builtin", f"{entry.name.replace('-', '_')}.py")
    for candidate in (_folder(entry) / entry.weights.name, _installed(entry)):
        if candidate is not None and candidate.is_file():
            return candidate
    return None


def require(name: str) -> Path:
    """The weight file of model `name`, its sha256 checked; raises Refused, with a next step, if missing or wrong."""
    entry, here = catalog.find(name), path(name)
    if here is None:
        raise Refused(
            f"the {entry.content} of {name} {'is' if entry.kind == 'text' else 'are'} not here; "
            f"run: refemu models fetch {name}"
        )
    if entry.package is not None:
        in_cache = here.parent == _folder(entry)
        verify(here, entry.weights, _again(entry) if in_cache else f"run: refemu models fetch {name}")
    return here


def fetch(name: str, source: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The weight file of model `name`, checked; fetched into the cache if it is missing.

    source: the package's file or the weight file, to read instead of the package index. progress: called as
    progress(what, done, total) in bytes. Raises Refused, with a next step, for a wrong sha256 (with both values; every
    file is unchanged), no pip or index, or a full disk. Then, and after an interrupt, no part of the model remains.
    """
    entry, here, report = catalog.find(name), path(name), progress or _silent
    if here is not None and (entry.package is None or (source is None and _is_good(here, entry))):
        return here
    with _stage(entry) as stage:
        model = stage / "model"
        model.mkdir()
        origin = download.archive(_package(entry), stage, report) if source is None else user_path(source)
        take(entry, origin, model, report)
        return _place(entry, model)


def remove(name: str) -> bool:
    """Delete the cached files of model `name`; False if there were none. Raises Refused for files outside the cache."""
    entry = catalog.find(name)
    if entry.package is None:
        raise Refused(f"{name} is built in; there is nothing to remove")
    folder = _folder(entry)
    if not folder.exists():
        installed = _installed(entry)
        if installed is not None:
            raise Refused(f"{name} is in an installed package ({installed}); run: pip uninstall {entry.package.name}")
        return False
    with _disk(entry):
        scratch.discard(folder, _PARTIAL)
    return True


def status() -> list[dict[str, Any]]:
    """Every known model as a row: name, state, kind, source, licence, size in bytes, sha256, path, meaning."""
    return [_row(entry) for entry in catalog.MODELS.values()]


def _silent(what: str, done: int, total: int) -> None:
    """Discard progress."""


def _folder(entry: Entry) -> Path:
    return cache_folder() / "models" / entry.name


def _package(entry: Entry) -> Package:
    assert entry.package is not None, "the caller handles built-in models"
    return entry.package


def _installed(entry: Entry) -> Path | None:
    """The weight file inside an installed package; the package's code never runs."""
    spec = importlib.util.find_spec(_package(entry).module)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder).parent / entry.weights.member
        if file.is_file():
            return file
    return None


def _is_good(here: Path, entry: Entry) -> bool:
    """True for the right file. Raises Refused for a wrong one in the cache; a wrong one in a package is ignored."""
    if here == _installed(entry):
        return digest(here) == entry.weights.sha256
    verify(here, entry.weights, _again(entry))
    return True


def _again(entry: Entry) -> str:
    return f"nothing was changed; run: refemu models remove {entry.name}, then: refemu models fetch {entry.name}"


@contextlib.contextmanager
def _stage(entry: Entry) -> Iterator[Path]:
    """A temporary folder next to the model's, always removed afterwards."""
    with _disk(entry):
        models = _folder(entry).parent
        models.mkdir(parents=True, exist_ok=True)
        scratch.sweep(models, _LEFT)
        with scratch.folder(models, _PARTIAL) as stage:
            yield stage


@contextlib.contextmanager
def _disk(entry: Entry) -> Iterator[None]:
    """Add the next step to errors of a full or read-only disk."""
    try:
        yield
    except OSError as error:
        where = cache_folder()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refused(
                f"no space left under {where} for {entry.name}, which needs {_need(entry) // 1_000_000} MB "
                "in between; free some, or set REFEMU_HOME to another folder. No incomplete file remains"
            ) from None
        raise Refused(
            f"{error.filename or where}: {error.strerror or error}; if the cache cannot be written, set "
            "REFEMU_HOME to a folder that you can write"
        ) from None


def _need(entry: Entry) -> int:
    total = 2 * _package(entry).size  # pip briefly has a second copy
    for file in entry.files:
        total += file.size
    return total


def _place(entry: Entry, model: Path) -> Path:
    """Rename the finished folder into the cache; check weights that another process may have put there."""
    folder = _folder(entry)
    file = folder / entry.weights.name
    if folder.exists() and not file.exists():
        folder.rename(model.with_name("remains"))  # of a model whose weights were deleted
    if not folder.exists():
        try:
            model.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    verify(file, entry.weights, _again(entry))
    return file


def _row(entry: Entry) -> dict[str, Any]:
    where = path(entry.name) if entry.package else None
    state = (
        "built in"
        if not entry.package
        else "absent"
        if where is None
        else ("fetched" if where.parent == _folder(entry) else "installed")
    )
    return {
        "name": entry.name,
        "state": state,
        "kind": entry.kind,
        "source": entry.source,
        "licence": entry.licence,
        "bytes": entry.weights.size if entry.files else 0,
        "sha256": entry.weights.sha256 if entry.files else None,
        "path": None if where is None else str(where),
        "meaning": entry.meaning,
    }
