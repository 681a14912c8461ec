"""Regeneration of sets from their manifests, to the same bytes, and a campaign's cases of a model's run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu import units
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets
from refemu.golden.make import build, model_cases
from refemu.golden.make.generate import collect, function_of, random_cases
from refemu.golden.make.model_cases import Progress, Source
from refemu.units.unit import KINDS, AnyUnit, Cases

SAVED = "testing.hold"  #: in place of what makes cases: a test saved them, nothing makes them again
MISSING = "grade.missing"  #: likewise: a grading chose them
MINIMAL = "grade.minimal"  #: likewise: few that have the grade of all
_KEPT = {
    SAVED: "a test saved these cases; their answers were computed anew",
    MISSING: "a grading chose these cases; their answers were computed anew",
    MINIMAL: "a grading chose these cases; their answers were computed anew",
}


def regenerate(manifest: Mapping[str, Any], progress: Progress | None = None) -> dict[str, bytes]:
    """Every file of the set that `manifest` describes, made anew from unit, configuration, kinds, seed and model run.

    Raises model_cases.Absent where that run cannot be repeated here. Refused: an unknown unit or configuration.
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
    """The block of a set that a campaign made of a model's run."""
    layer: int | None = manifest["generator"].get("model", {}).get("layer")
    return layer


def _kept(manifest: Mapping[str, Any]) -> str:
    """What stands in place of a function that makes the cases, "" where one does."""
    function = str(manifest["generator"].get("model", {}).get("function", ""))
    return function if function in _KEPT else ""


def remake(manifest: Mapping[str, Any], tapped: Sequence[Cases], source: Mapping[str, Any]) -> dict[str, bytes]:
    """As `regenerate`, with the cases of kind "model" and the run behind them given."""
    unit, config = units.find(manifest["unit"]), manifests.config(manifest)
    unit.config(config)
    kinds = [kind for kind in KINDS if kind in manifest["generator"]]
    if "seeds" in manifest["generator"].get("random", {}):
        return _shard(unit, config, manifest)
    if (layer := _layer(manifest)) is not None:
        return block_set(unit, config, layer, tapped, source, manifest)
    blocks, generator = collect(unit, config, kinds, manifest["seed"], tapped)
    if kept := _kept(manifest):
        generator["model"] = {"function": kept, "seed": 0}
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
    """A set of several seeds, as a campaign makes them."""
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
    """Raise Damaged where the seeds give more rows than the set has: one of them is drawn, and no other yet."""
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
    """Every file of a set of all cases of one block of a model's run, as a campaign makes it.

    exports: a manifest whose version and exports it shall have.
    """
    asked = exports or {"refemu_version": manifests.RELEASES[-1], "hex": {}, "bin": {}}
    generator = {"model": {"function": model_cases.FUNCTION, "seed": 0, "layer": layer}}
    described, arrays = build.build(
        unit, config, cases, generator=generator, source=source, version=asked["refemu_version"], compiled_from=1
    )
    return sets.render(described, arrays, bool(asked["hex"]), bool(asked["bin"]))


def model_blocks(golden: sets.Golden) -> list[Cases]:
    """The cases of kind "model" as they stand in a set: their stimulus, and what the manifest says of them."""
    unit, blocks = units.find(golden.manifest["unit"]), []
    for entry in golden.manifest["cases"]:
        if entry["kind"] == "model":
            inputs = sets.inputs(golden, unit, entry["first"], entry["cases"], entry["rows"])
            blocks.append(
                Cases(
                    "model",
                    entry["why"],
                    {name: np.asarray(array) for name, array in inputs.items()},
                    entry.get("decision", ""),
                    entry.get("source", {}),
                    golden.config,
                )
            )
    return blocks
