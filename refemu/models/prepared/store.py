"""List, check and prune all cached models. Nothing outside `REFEMU_HOME/prepared` is touched."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from refemu import checked_json, scratch
from refemu.arith.checks import Refused
from refemu.home import cache_folder
from refemu.models.prepared import items, prepared_cache

#: "usable", or why the next start prepares it again: "outdated" (another version of refemu) or "damaged"
State: TypeAlias = Literal["usable", "outdated", "damaged"]
_LEFT = re.compile(re.escape(items.PARTIAL) + "[a-z0-9_]+")


class PreparedModel(NamedTuple):
    """One prepared model."""

    folder: Path
    state: State
    description: dict[str, Any]  #: what it was prepared from; empty if unreadable

    @property
    def model(self) -> str:
        """Name of the model that it was first prepared for."""
        return str(self.description.get("model", ""))

    def items(self) -> list[Path]:
        """Folders of its items, by name."""
        others = (prepared_cache.DESCRIPTION,)
        return sorted(path for path in self.folder.iterdir() if path.name not in others and path.name[0] != ".")

    def row(self) -> dict[str, Any]:
        """The row of a table."""
        return {
            "name": self.folder.name,
            "model": self.model,
            "recipe": str(self.description.get("recipe", "")),
            "state": self.state,
            "items": len(self.items()),
            "bytes": items.size(self.folder),
            "path": str(self.folder),
        }


def listing() -> list[PreparedModel]:
    """Every prepared model, by folder; contents are not read, see `check`."""
    folder = _root()
    places = sorted(folder.iterdir()) if folder.is_dir() else []
    return [_kept(place) for place in places if place.is_dir() and not place.name.startswith(".")]


def find(name: str) -> list[PreparedModel]:
    """The prepared models of a folder or model name; raises Refused if there is none."""
    chosen = [kept for kept in listing() if name in (kept.folder.name, kept.model)]
    if not chosen:
        raise Refused(f"{name}: no prepared model of this name under {_root()}; run: refemu models prepared")
    return chosen


def check(chosen: list[PreparedModel]) -> Iterator[tuple[Path, str]]:
    """Yield every item with what is wrong with it, or "". Reads every byte."""
    for kept in chosen:
        if kept.state != "usable":
            yield kept.folder, f"{kept.folder}: {kept.state}; run: refemu models prune"
            continue
        for place in kept.items():
            try:
                items.check(place)
                yield place, ""
            except Refused as error:
                yield place, str(error)


def prune(chosen: list[PreparedModel] | None = None, damaged: bool = False) -> list[Path]:
    """Delete the prepared models `chosen`, or for None those that no start would use; return what was deleted.

    damaged: delete only the items with a damaged file.
    """
    if damaged:
        everything = listing() if chosen is None else chosen
        doomed = [place for place, wrong in check(everything) if wrong]
    else:
        doomed = [kept.folder for kept in (listing() if chosen is None else chosen) if chosen or kept.state != "usable"]
    try:
        scratch.sweep(_root(), _LEFT)
        for kept in listing():
            scratch.sweep(kept.folder, _LEFT)
        for place in doomed:
            _discard(place)
    except OSError as error:
        raise Refused(f"{error.filename or _root()}: {error.strerror or error}") from None
    return doomed


def _root() -> Path:
    return cache_folder() / prepared_cache.FOLDER


def _kept(folder: Path) -> PreparedModel:
    description = checked_json.load(folder / prepared_cache.DESCRIPTION)
    if description is None:
        return PreparedModel(folder, "damaged", {})
    usable = description["version"] == items.VERSION and description["sources"] == _sources(description["patterns"])
    return PreparedModel(folder, "usable" if usable else "outdated", description)


def _sources(patterns: list[str]) -> str | None:
    """Digest of the present sources; None if some are missing."""
    try:
        return prepared_cache.sources_digest(tuple(patterns))
    except (ValueError, NotImplementedError):  # no source matches, or there is no pattern
        return None


def _discard(place: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process deleted it
        scratch.discard(place, items.PARTIAL)
