"""Sets that this refemu made or regenerated on this machine: their digests, noted in the cache folder.

A digest in a manifest shows that a set is undamaged and not where it comes from: anybody can seal a set. A set is known
here if `generate` wrote it or `check` regenerated it with the present sources of refemu. Who can regenerate a set
elsewhere follows from its manifest: the version of refemu, a distribution with the unit, weights of a model.
"""

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from refemu import __version__
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets
from refemu.home import cache_folder, make_private

FOLDER = "origins"  #: name in the cache folder
#: packages that decide the bytes of a set
LAYERS = ("arith", "formats", "golden/files", "golden/make", "models", "units")
MOMENT = 2_000_000_000  #: nanoseconds; dates of file systems are not coarser
UNSTABLE = "unstable"  #: in place of a digest of sources that changed a moment ago
OLD = 30 * 86_400  #: seconds after which the notes of other sources are deleted


@dataclass(frozen=True)
class Origin:
    """Whether this refemu makes a set, and who can regenerate it."""

    known: bool  #: whether this refemu wrote or regenerated the set on this machine
    by: str  #: what regenerates the set: versions, weights

    def sentence(self, path: str | Path) -> str:
        """Say who regenerates the set in `path` and how; "" for a known set."""
        if self.known:
            return ""
        return (
            f"origin: not checked here, and a digest detects damage, not forgery; {self.by} regenerates the set: "
            f"refemu check {path}"
        )


def of(path: str | Path) -> Origin:
    """Find the origin of the set in folder `path`, or whose manifest is `path`. Refused: a damaged manifest."""
    place = Path(path) if Path(path).name == sets.MANIFEST else Path(path) / sets.MANIFEST
    manifest = manifests.parse(place.read_bytes(), str(place))
    known = False
    with contextlib.suppress(OSError):
        known = (_folder() / manifest["self_sha256"]).is_file()
    return Origin(known, vouching(manifest))


def vouching(manifest: Mapping[str, Any]) -> str:
    """What regenerates a set, by its manifest."""
    parts = [f"refemu {manifest['refemu_version']}"]
    if "distribution_version" in manifest:
        parts.append(f"{manifest['unit'].partition('/')[0]} {manifest['distribution_version']}")
    if weights := manifest.get("source", {}).get("weights_sha256"):
        parts.append(f"weights of {manifest['source'].get('model', 'a model')} (sha256 {weights[:12]}...)")
    return " with ".join(parts)


def note(digest: str) -> None:
    """Note the digest of a set that this refemu wrote or regenerated. A cache that cannot be written costs nothing."""
    folder = _folder()
    if folder.name == UNSTABLE:
        return
    with contextlib.suppress(OSError):
        if not folder.is_dir():
            make_private(folder)
            _drop_old(folder)
        (folder / digest).touch()


def _folder() -> Path:
    return cache_folder() / FOLDER / _state()


@cache
def _state() -> str:
    """Digest of path, size and date of every source file that decides bytes."""
    package, files = Path(__file__).parents[2], []
    for layer in LAYERS:
        for folder, _, names in os.walk(package / layer):
            for name in names:
                if name.endswith(".py"):
                    status = os.stat(os.path.join(folder, name))
                    files.append((folder, name, status.st_size, status.st_mtime_ns))
    if not files or time.time_ns() - max(changed for *_, changed in files) < MOMENT:
        return UNSTABLE
    return hashlib.sha256(f"{__version__} {sorted(files)}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _drop_old(folder: Path) -> None:
    """Delete notes for other sources that nothing changed for OLD seconds."""
    for other in folder.parent.iterdir():
        if other != folder and time.time() - other.stat().st_mtime > OLD:
            shutil.rmtree(other, ignore_errors=True)
