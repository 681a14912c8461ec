"""Regeneration of sets from their manifests, to the same bytes, and a campaign's cases of a model's run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu import units
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets
from refemu.golden.make import build, model_cases
from refemu.golden.make.generate import COMPLETE, collect, function_of
from refemu.golden.make.model_cases import Progress, Source
from refemu.golden.make.random_cases import random_cases
from refemu.units.unit import KINDS, AnyUnit, Cases

SAVED = "testing.hold"  #: in place of a generator's function: a test saved the cases, nothing regenerates them
MISSING = "grade.missing"  #: likewise: chosen to detect faults that a set misses
MINIMAL = "grade.minimal"  #: likewise: a few cases with the coverage of all
_KEPT = {
    SAVED: "a test saved these cases; only their answers were recomputed",
    MISSING: "`refemu grade` chose these cases; only their answers were recomputed",
    MINIMAL: "`refemu grade` chose these cases; only their answers were recomputed",
    COMPLETE: "`refemu generate --complete` chose the cases of kind fault; only their answers were recomputed",
}


def regenerate(manifest: Mapping[str, Any], progress: Progress | None = None) -> dict[str, bytes]:
    """Every file of the set that `manifest` describes, from its unit, configuration, kinds, seed and model run.

    Raises model_cases.Absent if that run cannot be repeated here. Refused: an unknown unit or configuration.
    """
    if kept := _kept(manifest):
        raise model_cases.Absent(_KEPT[kept])
    run = model_cases.recorded(manifest["source"]) if "model" in manifest["generator"] else None
    taps = _taps(run, _layer(manifest), progress) if run else {}
    source = model_cases.described(run) if run else {}
    return remake(manifest, taps.get((manifest["unit"], manifests.config(manifest)), ()), source)


def _taps(run: Source, layer: int | None, progress: Progress | None) -> model_cases.Tapped:
    return model_cases.tapped(run, progress) if layer is None else model_cases.crossed(run).get(layer, {})


def _layer(manifest: Mapping[str, Any]) -> int | None:
    """The block of a campaign's set from a model's run."""
    layer: int | None = manifest["generator"].get("model", {}).get("layer")
    return layer


def _kept(manifest: Mapping[str, Any]) -> str:
    """Name in place of a generator's function; "" if the cases have a generator."""
    return next((_function(manifest, kind) for kind in ("model", "fault") if _is_kept(manifest, kind)), "")


def _is_kept(manifest: Mapping[str, Any], kind: str) -> bool:
    return _function(manifest, kind) in _KEPT


def _function(manifest: Mapping[str, Any], kind: str) -> str:
    return str(manifest["generator"].get(kind, {}).get("function", ""))


def remake(manifest: Mapping[str, Any], tapped: Sequence[Cases], source: Mapping[str, Any]) -> dict[str, bytes]:
    """Regenerate a set from given cases of kinds "model", with their run, and "fault"."""
    unit, config = units.find(manifest["unit"]), manifests.config(manifest)
    unit.config(config)
    kinds = [kind for kind in KINDS if kind in manifest["generator"]]
    if "seeds" in manifest["generator"].get("random", {}):
        return _shard(unit, config, manifest)
    if (layer := _layer(manifest)) is not None:
        return block_set(unit, config, layer, tapped, source, manifest)
    model = [block for block in tapped if block.kind == "model"]
    blocks, generator = collect(unit, config, kinds, manifest["seed"], model)
    blocks += [block for block in tapped if block.kind == "fault"]
    generator |= {kind: manifest["generator"][kind] for kind in ("model", "fault") if _is_kept(manifest, kind)}
    manifest_, arrays = build.build(
        unit,
        config,
        blocks,
        generator=generator,
        seed=manifest["seed"],
        source=source if "model" in generator else {},
        version=manifest["refemu_version"],
        made_by=manifest.get("distribution_version", ""),
    )
    return sets.render(manifest_, arrays, bool(manifest["hex"]), bool(manifest["bin"]))


def _shard(unit: AnyUnit, config: str, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """A campaign's set of several seeds."""
    entry = manifest["generator"]["random"]
    _require_seeds(unit, config, entry, manifest["rows"])
    blocks = random_cases(unit, config, entry["seed"], entry["seeds"])
    generator = {"random": {**entry, "function": function_of(unit)}}
    described, arrays = build.build(
        unit,
        config,
        blocks,
        generator=generator,
        seed=entry["seed"],
        version=manifest["refemu_version"],
        made_by=manifest.get("distribution_version", ""),
        compiled_from=1,
    )
    return sets.render(described, arrays, bool(manifest["hex"]), bool(manifest["bin"]))


def _require_seeds(unit: AnyUnit, config: str, entry: Mapping[str, Any], rows: int) -> None:
    """Raise Damaged if the seeds give more rows than the set has; only one of them is drawn."""
    each = 0
    for block in random_cases(unit, config, entry["seed"], 1):
        shape = next(iter(block.inputs.values())).shape
        each += shape[0] * (shape[1] if unit.timing == "event" else 1)
    if not 0 < each * entry["seeds"] <= rows:
        raise manifests.Damaged(
            f"generator: {entry['seeds']} seeds give {each * entry['seeds']} rows, the set has {rows}"
        )


def block_set(
    unit: AnyUnit,
    config: str,
    layer: int,
    cases: Sequence[Cases],
    source: Mapping[str, Any],
    exports: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """Every file of a campaign's set: all cases of one block of a model's run.

    exports: a manifest that gives the version and the exports.
    """
    asked = exports or {"refemu_version": manifests.RELEASES[-1], "hex": {}, "bin": {}}
    generator = {"model": {"function": model_cases.FUNCTION, "seed": 0, "layer": layer}}
    described, arrays = build.build(
        unit, config, cases, generator=generator, source=source, version=asked["refemu_version"], compiled_from=1
    )
    return sets.render(described, arrays, bool(asked["hex"]), bool(asked["bin"]))


def model_blocks(golden: sets.Golden) -> list[Cases]:
    """The cases of kinds "model" and "fault" of a set: their stimulus from the arrays, all else from the manifest."""
    unit, blocks = units.find(golden.manifest["unit"]), []
    for entry in golden.manifest["cases"]:
        if entry["kind"] in ("model", "fault"):
            inputs = sets.inputs(golden, unit, entry["first"], entry["cases"], entry["rows"])
            blocks.append(
                Cases(
                    entry["kind"],
                    entry["why"],
                    {name: np.asarray(array) for name, array in inputs.items()},
                    entry.get("decision", ""),
                    entry.get("source", {}),
                    golden.config,
                )
            )
    return blocks
