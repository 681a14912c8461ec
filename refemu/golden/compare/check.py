"""Check of sets against the present refemu: every file regenerated and compared byte for byte.

The bytes are compared, since a reader does not notice every change of a container; arrays only locate a change.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu import __version__
from refemu.arguments import checked
from refemu.arith import selftest
from refemu.arith.checks import Refused, RefusedType, first_index, one_line
from refemu.golden.files import manifest as manifests
from refemu.golden.files import npz, origin, sets, store
from refemu.golden.make import model_cases
from refemu.golden.make import regenerate as generator_remake
from refemu.golden.make.model_cases import Progress

REGENERATED, HASHES_ONLY, UNREAD = "regenerated", "hashes only", "not regenerated"
_SHOWN = 60  # characters of a value in a finding


@dataclass(frozen=True)
class Finding:
    """Difference between a file and what it should be."""

    set: str  #: folder of the set
    file: str  #: file of the set
    what: str  #: the difference

    def __str__(self) -> str:
        return f"{self.set}/{self.file}: {self.what}"


@dataclass(frozen=True)
class Checked:
    """Outcome of checking one set."""

    path: str  #: folder of the set
    name: str  #: name of the set
    rows: int  #: rows of the set
    files: int  #: files of the set
    how: str  #: "regenerated", "hashes only" (`note` says why), or "not regenerated" if damaged or unreadable
    note: str  #: reason for checking hashes only
    findings: tuple[Finding, ...]  #: differences
    refused: str = ""  #: why the set could not be checked, such as a unit that is not installed; else empty


@dataclass(frozen=True)
class Report:
    """Outcome of checking all sets below a folder."""

    sets: tuple[Checked, ...]  #: sets in order

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all sets, in order."""
        return tuple(finding for checked in self.sets for finding in checked.findings)

    @property
    def refused(self) -> tuple[Checked, ...]:
        """Sets that could not be checked, in order."""
        return tuple(checked for checked in self.sets if checked.refused)

    @property
    def equal(self) -> bool:
        """Whether every set was checked and there are no findings."""
        return not self.findings and not self.refused


@checked
def check(path: str | Path, progress: Progress | None = None) -> Report:
    """Regenerate every set at or below a folder and compare all files; any changed bit is a finding.

    If a set has cases of a model whose weights are absent, its files are checked by hash, and its answers are computed
    from the stored stimulus. A set that cannot be checked does not stop the check of the others: its manifest is not
    refemu's or follows an unknown schema, its unit is unknown, or the unit's compiled form differs from its readable
    form.

    Parameters
    ----------
    path : str or Path
        Folder.
    progress : callable, optional
        Called as progress(what, done, total).

    Returns
    -------
    Report
        Findings of every set, or why it could not be checked.

    Raises
    ------
    Refused
        There is no set.
    """
    selftest.check()
    model_cases.forget()
    folders = find(Path(path))
    checked = []
    for done, folder in enumerate(folders):
        if progress:
            progress("check", done, len(folders))
        checked.append(_check_set(folder, progress))
    if progress:
        progress("check", len(folders), len(folders))
    return Report(tuple(checked))


def find(path: Path) -> list[Path]:
    """Folders of sets at or below `path`, sorted, without names that begin with a dot. Refused: there is none."""
    if path.name == sets.MANIFEST:
        path = path.parent
    if not path.exists():
        raise Refused(f"{path}: no such folder")
    if not path.is_dir():
        raise Refused(f"{path}: must be a folder of golden sets or a {sets.MANIFEST}, got a file")
    candidates = {file.parent for name in (sets.MANIFEST, sets.VECTORS) for file in path.rglob(name)}
    visible = [
        candidate
        for candidate in candidates
        if not any(part.startswith(".") for part in candidate.relative_to(path).parts)
    ]
    if not visible or (visible == [path] and not (path / sets.MANIFEST).is_file()):
        raise Refused(
            f"{path}: no {sets.MANIFEST} here or below; a golden set is a folder that `refemu generate` writes"
        )
    return sorted(visible)


def _check_set(folder: Path, progress: Progress | None) -> Checked:
    """Check one set, or say why that cannot be done."""
    files: Mapping[str, bytes] = {}
    try:
        files = store.read(folder)
        return check_files(str(folder), files, progress)
    except (Refused, RefusedType, OSError) as error:
        reason = str(error)
    except Exception as error:
        if not _is_plugged(files):
            raise
        reason = f"its unit raises {type(error).__name__}: {error}"
    reason = reason if reason.startswith(str(folder)) else f"{folder}: {reason}"
    return Checked(str(folder), folder.name, 0, len(files), UNREAD, "", (), reason)


def _is_plugged(files: Mapping[str, bytes]) -> bool:
    """Whether the unit of a set belongs to another distribution, whose code may raise anything."""
    try:
        return "/" in json.loads(files[sets.MANIFEST])["unit"]
    except (KeyError, TypeError, ValueError):
        return False


def check_files(
    folder: str,
    files: Mapping[str, bytes],
    progress: Progress | None = None,
    regenerate: Callable[..., dict[str, bytes]] | None = None,
) -> Checked:
    """Check the files of one set. regenerate: function to call instead of `regenerate.files`."""
    if sets.MANIFEST not in files:
        return _unread(folder, files, "is missing, so nothing describes the vectors")
    try:
        manifest = manifests.parse(files[sets.MANIFEST], f"{folder}/{sets.MANIFEST}")
        _require_release(manifest)
        _require_bytes(manifest, len(files.get(sets.VECTORS, b"")))
    except manifests.Damaged as error:
        return _unread(folder, files, str(error).removeprefix(f"{folder}/{sets.MANIFEST}: "))
    how, note = REGENERATED, ""
    try:
        try:
            wanted = (regenerate or generator_remake.regenerate)(manifest, progress)
        except model_cases.Absent as error:
            how, note = HASHES_ONLY, str(error)
            wanted = _from_stimulus(manifest, files.get(sets.VECTORS, b""))
        differences = list(_differences(manifest, files, wanted))
    except manifests.Damaged as error:
        return _unread(folder, files, str(error))
    except _Unreadable as error:
        differences = [(sets.VECTORS, str(error).removeprefix(f"{sets.VECTORS}: "))]
    findings = tuple(Finding(folder, name, what) for name, what in differences)
    if how == REGENERATED and not findings:
        origin.note(manifest["self_sha256"])
    return Checked(folder, manifest["name"], manifest["rows"], len(files), how, note, findings)


class _Unreadable(Refused):
    """Vectors do not match the manifest of a set that is checked by its hashes."""


def _from_stimulus(manifest: Mapping[str, Any], vectors: bytes) -> dict[str, bytes]:
    """Every file of a set, with model cases from its own vectors, whose hashes are in the manifest."""
    try:
        golden = sets.Golden(manifest, sets.arrays_of(manifest, vectors, sets.VECTORS))
    except Refused as error:
        raise _Unreadable(str(error)) from error
    return generator_remake.remake(manifest, generator_remake.model_blocks(golden), manifest["source"])


def _unread(folder: str, files: Mapping[str, bytes], what: str) -> Checked:
    return Checked(folder, Path(folder).name, 0, len(files), UNREAD, "", (Finding(folder, sets.MANIFEST, what),))


def _require_release(manifest: Mapping[str, Any]) -> None:
    """Require an existing release in the one field outside the digest."""
    if manifest["refemu_version"] not in manifests.RELEASES:
        known = ", ".join(manifests.RELEASES)
        raise manifests.Damaged(f"refemu_version is {manifest['refemu_version']}, refemu {__version__} knows {known}")


def _require_bytes(manifest: Mapping[str, Any], size: int) -> None:
    """Reject more rows than the vectors have bytes for, before the seeds of a set are drawn."""
    if "seeds" not in manifest["generator"].get("random", {}):
        return
    needed = 0
    for entry in manifest["arrays"]:
        needed += math.prod(entry["shape"]) * int(entry["dtype"][1:])
    if size < needed:
        raise manifests.Damaged(f"its arrays need {needed} bytes, {sets.VECTORS} has {size}")


def _differences(
    manifest: Mapping[str, Any], files: Mapping[str, bytes], wanted: Mapping[str, bytes]
) -> Iterator[tuple[str, str]]:
    """Yield every file that differs from the regenerated one, and how."""
    for name in sorted(set(files) | set(wanted)):
        if name not in wanted:
            yield name, "is not a file of this set"
        elif name not in files:
            yield name, "is missing"
        else:
            got = npz.stored(files[name], wanted[name], name) if name == sets.VECTORS else files[name]
            if got != wanted[name]:
                yield name, _described(name, manifest, got, wanted[name])


def _described(name: str, manifest: Mapping[str, Any], got: bytes, want: bytes) -> str:
    place = _first_byte(got, want)
    if name == sets.MANIFEST:
        return f"{place}; {_key_difference(manifests.parse(got, name), manifests.parse(want, name))}"
    if name == sets.VECTORS:
        return f"{place}; {_array_difference(manifest, got, want)}"
    if name.startswith("hex/"):
        line = want[: _offset(got, want)].count(b"\n")
        return f"{place}, line {line + 1}: got {_line(got, line)}, want {_line(want, line)}"
    return place


def _offset(got: bytes, want: bytes) -> int:
    """Index of the first byte that differs, or the shorter length."""
    length = min(len(got), len(want))
    unequal = np.frombuffer(got, np.uint8, length) != np.frombuffer(want, np.uint8, length)
    return int(np.argmax(unequal)) if unequal.any() else length


def _first_byte(got: bytes, want: bytes) -> str:
    offset = _offset(got, want)
    if offset == min(len(got), len(want)):
        return f"has {len(got)} bytes of {len(want)}"
    return f"byte {offset} is 0x{got[offset]:02x}, must be 0x{want[offset]:02x}"


def _line(data: bytes, line: int) -> str:
    lines = data.split(b"\n")
    return one_line(lines[line].decode("ascii", "backslashreplace")[:_SHOWN]) if line < len(lines) else "nothing"


def _key_difference(got: Any, want: Any, path: str = "") -> str:
    """The first value that differs between two manifests."""
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [key for key in sorted(set(got) | set(want)) if got.get(key) != want.get(key) and key != "self_sha256"]
        return (
            _key_difference(got.get(keys[0]), want.get(keys[0]), f"{path}.{keys[0]}")
            if keys
            else "only the digest differs"
        )
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        at = next(index for index in range(len(got)) if got[index] != want[index])
        return _key_difference(got[at], want[at], f"{path}[{at}]")
    return f"{path.removeprefix('.')} is {str(got)[:_SHOWN]!r}, must be {str(want)[:_SHOWN]!r}"


def _array_difference(manifest: Mapping[str, Any], got: bytes, want: bytes) -> str:
    """First array, row, port and lane in which a changed .npz differs, as far as it can be read."""
    try:
        archive = npz.Archive(got, sets.VECTORS)
        return _archive_difference(archive, npz.Archive(want, sets.VECTORS))
    except Refused as error:
        return str(error)


def _archive_difference(got: npz.Archive, want: npz.Archive) -> str:
    """Headers before contents, and contents of the right shape only."""
    for name in sorted({*got.names, *want.names}):
        if name not in got.names or name not in want.names:
            return f"array {name} is {'missing' if name not in got.names else 'not of this set'}"
        head, due = got.header(name), want.header(name)
        if (head.dtype, head.shape) != (due.dtype, due.shape):
            return f"{name} is {head.dtype} {head.shape}, must be {due.dtype} {due.shape}"
        ours, other = got.array(name), want.array(name)
        if (unequal := ours != other).any():
            index = first_index(unequal)
            lane = f", lane {index[1]}" if len(index) > 1 else ""
            return f"{name}, row {index[0]}{lane}: got {int(ours[index]):#x}, must be {int(other[index]):#x}"
    return "its arrays are equal, its container is not"
