"""Disk cache of the tensors of a model under a recipe: `REFEMU_HOME/prepared/<recipe>-<key>/<item>/`.

The key is a digest of exactly what the tensors depend on: the weights, the sizes that say how they are read, the
recipe's settings, and the sources that compute them. Schemes with the linear layers of scheme `fp16` share its items.
With REFEMU_PREPARED=0 in the environment nothing is cached or read.
"""

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Any

from refemu import checked_json, scratch
from refemu.arith.checks import Refused
from refemu.home import cache_folder, make_private
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.prepared import items
from refemu.models.prepared.items import Arrays
from refemu.models.weights import digests, files

FOLDER = "prepared"  #: folder below the cache folder
DESCRIPTION = "prepared.json"
LEAST = 1 << 24  #: fewest weights of a model worth caching; a smaller one is prepared as fast as it is loaded
PACKAGE = Path(__file__).resolve().parents[2]
#: sources of every recipe
SHARED = ("arith/**/*.py", "models/*.py", "models/prepared/*.py", "models/weights/**/*.py")
#: sizes that change no tensor; an item's name has them where they change a search
OTHER_SIZES = ("blocks", "context")
_LEFT = re.compile(re.escape(items.PARTIAL) + "[a-z0-9_]+")


@dataclass(frozen=True)
class Recipe:
    """How tensors are prepared from weights."""

    name: str
    sources: tuple[str, ...]  #: files of the package that compute them, in addition to SHARED; patterns
    settings: Mapping[str, Any] = field(default_factory=dict)  #: parameters that the tensors depend on
    width: float = 2  #: approximate bytes per weight


class PreparedCache:
    """Items by name: read if cached, else computed, and then cached if there is a folder."""

    def __init__(self, folder: Path | None = None, sources: tuple[Path, ...] = ()) -> None:
        """folder: None caches nothing. sources: weight files, which must not change meanwhile."""
        self.folder: Path | None = folder
        self._sources = sources

    def __repr__(self) -> str:
        return f"Shelf({str(self.folder) if self.folder else None!r})"

    def holds(self, name: str) -> bool:
        """Whether an item is cached, damaged or not."""
        return self.folder is not None and (self.folder / name).exists()

    def item(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of an item; raises Refused like `items.read` and `items.write`, and if weights changed."""
        if self.folder is None:
            return make()
        place = self.folder / name
        kept = items.read(place)
        if kept is not None:
            return kept
        arrays = make()
        for file in self._sources:
            digests.require_same(file)
        items.write(place, arrays)
        kept = items.read(place)
        if kept is None:
            raise Refused(f"{place}: the item was deleted while it was in use; start again")
        return kept


NOWHERE = PreparedCache()


def prepared_cache(model: Model, backend: Backend, recipe: Recipe) -> PreparedCache:
    """The cache of a model under a recipe; one without a folder if the model is small or caching is off.

    Raises Refused for a disk without space for the items that are not cached yet.
    """
    sources = files.paths(model.weights)
    if backend.name != "jit" or not sources or not enabled() or count_weights(model) < LEAST:
        return NOWHERE
    wanted = key(model, recipe)
    name = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:24]
    folder = cache_folder() / FOLDER / f"{recipe.name}-{name}"
    _open(
        folder,
        {"model": model.name, "patterns": [*SHARED, *recipe.sources], **wanted},
        int(count_weights(model) * recipe.width),
    )
    return PreparedCache(folder, sources)


def enabled() -> bool:
    """Whether prepared models are cached: yes, unless REFEMU_PREPARED is 0."""
    return os.environ.get("REFEMU_PREPARED", "1") != "0"


def key(model: Model, recipe: Recipe) -> dict[str, Any]:
    """Everything that the prepared tensors depend on."""
    sizes = {name: value for name, value in _plain(model.config).items() if name not in OTHER_SIZES}
    return {
        "version": items.VERSION,
        "recipe": recipe.name,
        "settings": dict(recipe.settings),
        "sources": sources_digest((*SHARED, *recipe.sources)),
        "sizes": sizes,
        "weights_sha256": model.sha256,
    }


def _plain(value: Any) -> Any:
    """A record as its fields and its type, for JSON: two types of rotary scaling may have equal fields."""
    if is_dataclass(value) and not isinstance(value, type):
        there = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {"kind": type(value).__name__, **there}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


@functools.cache
def sources_digest(names: tuple[str, ...]) -> str:
    """Digest of the package's source files that match the patterns; each pattern must match a file."""
    total, matched = hashlib.sha256(), set[Path]()
    for name in names:
        some = set(PACKAGE.glob(name))
        if not some:
            raise ValueError(f"recipe: no source matches {name}")
        matched |= some
    for file in sorted(matched):
        total.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


def count_weights(model: Model) -> int:
    """Number of weights of a model."""
    total = 0
    for shape in model.config.shapes.values():
        total += prod(shape)
    return total


def _open(folder: Path, description: Mapping[str, Any], needed: int) -> None:
    """Make the folder with its description; a new one needs space for all items."""
    if (folder / DESCRIPTION).is_file():
        scratch.sweep(folder, _LEFT)
        return
    try:
        make_private(folder.parent)
        items.require_room(folder.parent, needed)
        make_private(folder)
        scratch.write_file(folder / DESCRIPTION, checked_json.dump(description), shared=True)
    except OSError as error:
        raise Refused(
            f"{error.filename or folder}: {error.strerror or error}; if the cache cannot be written, set REFEMU_HOME "
            "to a folder that you can write, or REFEMU_PREPARED=0 to cache nothing"
        ) from None
