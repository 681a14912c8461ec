"""Shards: the units of work of a campaign. Their bytes depend on their description alone.

A shard of random cases is one golden set; a shard of a model's cases is a folder of them, one for each unit,
configuration and block, and a list of their digests, which is written last.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from refemu import units
from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets, store
from refemu.golden.make import build, generate, model_cases, random_cases, regenerate
from refemu.units import parameters

Files = dict[str, bytes]
_SET = re.compile(r"[a-z0-9_]+-[a-z0-9_-]+-layer-[0-9]+")  # folder of a set inside that of its shard
LIST = "sets.json"  #: of a shard of several sets: name -> self_sha256


class Shard(Protocol):
    """Description of a shard for the workers of a campaign."""

    @property
    def name(self) -> str:
        """Folder of the shard inside that of the campaign."""

    def render(self) -> Iterator[tuple[str, Files]]:
        """Every set: its folder inside that of the campaign, and its files."""

    def listed(self, folder: Path) -> Mapping[str, str] | None:
        """Folder of every set -> its digest, "" if the shard does not state it; None if the shard is missing."""

    def holds(self, manifest: Mapping[str, Any]) -> bool:
        """Whether a set in the place of one of this shard belongs to this shard."""


Done: TypeAlias = Callable[[Shard], None]
Failed: TypeAlias = Callable[[Shard, BaseException | str], None]  #: raises if a shard must not be tried again


@dataclass(frozen=True, order=True)
class RandomShard:
    """Random cases of one unit in one configuration for consecutive seeds."""

    unit: str
    config: str
    seed: int  #: the first
    seeds: int  #: how many

    @property
    def name(self) -> str:
        """Folder of the shard inside that of the campaign."""
        return f"{parameters.set_name(units.find(self.unit), self.config)}/random-{self.seed:08d}"

    def render(self) -> Iterator[tuple[str, Files]]:
        """The shard's only set."""
        unit = units.find(self.unit)
        blocks = random_cases.random_cases(unit, self.config, self.seed, self.seeds)
        entry = {"function": generate.function_of(unit), "seed": self.seed, "seeds": self.seeds}
        manifest, arrays = build.build(
            unit, self.config, blocks, generator={"random": entry}, seed=self.seed, compiled_from=1
        )
        yield self.name, sets.render(manifest, arrays)

    def listed(self, folder: Path) -> Mapping[str, str] | None:
        """The shard's only set; only its manifest has its digest."""
        return {self.name: ""}

    def holds(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the set has the seeds of this shard."""
        entry = manifest["generator"].get("random", {})
        return (entry.get("seed"), entry.get("seeds", 1)) == (self.seed, self.seeds)


@dataclass(frozen=True)
class ModelShard:
    """All values at the ports of some units in some blocks while a model reads some tokens of a text."""

    weights: str  #: what `models.load` takes
    run: model_cases.Source  #: the tokens, read from an empty cache, under one scheme
    layers: tuple[int, ...]
    units: tuple[str, ...]

    @property
    def name(self) -> str:
        """Folder of the shard inside that of the campaign."""
        return f"{slug(self.run.scheme)}/tokens-{self.run.first_token:08d}"

    def render(self) -> Iterator[tuple[str, Files]]:
        """The sets of each block; a unit without operations in a block has none there."""
        loaded = _loaded(self.weights)
        if loaded.sha256 != self.run.weights_sha256:
            raise Refused(
                f"{self.weights}: has sha256 {loaded.sha256}, the campaign's weights have {self.run.weights_sha256}"
            )
        blocks, source = model_cases.crossed(self.run, self.units, max(self.layers)), model_cases.described(self.run)
        for layer in self.layers:
            for (name, config), cases in sorted(blocks.get(layer, {}).items()):
                files = regenerate.block_set(units.find(name), config, layer, cases, source)
                yield f"{self.name}/{parameters.set_name(units.find(name), config)}-layer-{layer:03d}", files

    def listed(self, folder: Path) -> Mapping[str, str] | None:
        """Contents of the list."""
        try:
            with reading(LIST, "the list of a shard"):
                entries = json.loads((folder / self.name / LIST).read_bytes())["sets"]
                listed = {f"{self.name}/{name}": str(digest) for name, digest in entries.items()}
        except (OSError, Refused):
            return None
        return listed if all(_SET.fullmatch(name) for name in entries) else None

    def holds(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the set has the run of this shard; its name has the block, and its digest is listed."""
        return bool(manifest["source"] == manifests.plain(self.run))


@cache
def _loaded(weights: str) -> Any:
    """Open a model once per worker."""
    return model_cases.load(weights)


def slug(scheme: str) -> str:
    """A scheme's text as a file name: `kllm-a4:outlier_percent=2` is `kllm-a4_outlier_percent_2`."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in scheme)


def keep(shard: Shard, rendered: Iterable[tuple[str, Files]], folder: Path) -> None:
    """Write the sets of a shard below `folder`, each completely or not at all, and last the list if it has several."""
    digests = {}
    for name, files in rendered:
        _make_room(folder / name)
        store.replace(folder / name, files)
        digests[name.removeprefix(f"{shard.name}/")] = json.loads(files[sets.MANIFEST])["self_sha256"]
    if isinstance(shard, ModelShard):
        place = folder / shard.name
        place.mkdir(parents=True, exist_ok=True)
        store.write_files({place / LIST: manifests.canonical({"sets": digests})})


def _make_room(place: Path) -> None:
    """Remove an incomplete set, since `store.replace` never touches one without a manifest."""
    if place.is_dir() and not place.is_symlink() and {sets.MANIFEST, sets.VECTORS}.issuperset(store.names(place)):
        shutil.rmtree(place)


def make(shard: Shard, out: str) -> str:
    """Make a shard below `out`; returns its name."""
    keep(shard, shard.render(), Path(out))
    return shard.name


def finished(shard: Shard, folder: Path) -> bool:
    """Whether the shard is complete: its list, if it has one, every manifest and every hash."""
    listed = shard.listed(folder)
    return listed is not None and all(_whole(shard, folder / name, digest) for name, digest in listed.items())


def _whole(shard: Shard, place: Path, digest: str) -> bool:
    if not (place / sets.MANIFEST).is_file():
        return False
    try:
        manifest = sets.load(place).manifest
    except Refused:
        return False
    return digest in ("", manifest["self_sha256"]) and shard.holds(manifest)
