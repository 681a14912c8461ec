"""Sets of golden vectors: from units, kinds and a model to directories. From a manifest again: generator_remake.py."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu import units as unit_names
from refemu.arith import integers, selftest
from refemu.arith.checks import Refused, require_choice
from refemu.golden import build, fields, model_cases, sets, store
from refemu.golden import manifest as manifests
from refemu.golden.generator_missing import require_cases
from refemu.golden.model_cases import Progress, Source
from refemu.units.unit import KINDS, Cases, Config, Unit

PART = 1 << 19  #: values of random cases that are drawn at once, about: 4 MB until they are narrow


@dataclass(frozen=True)
class Summary:
    """One set that was written."""

    name: str
    unit: str
    config: str
    path: str
    rows: int
    cases: int
    kinds: Mapping[str, int]  #: kind -> rows
    bytes: int  #: of all its files
    self_sha256: str
    refemu_version: str  #: the version that last changed the set


def generate(
    out: str | Path,
    *,
    units: Sequence[str] | None = None,
    configs: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    model: str | None = None,
    scheme: str | Sequence[str] | None = None,
    text: str | None = None,
    tokens: int | None = None,
    seed: int = 0,
    hex: bool = False,
    bin: bool = False,
    progress: Progress | None = None,
) -> list[Summary]:
    """Write one set per unit and ready configuration into `out`/<unit>-<configuration>/.

    units, configs, kinds: names; by default all. model, scheme, text, tokens: what cases of kind "model" are tapped
    from; by default 64 tokens of the shipped text through `tiny` under `olive-4`. scheme: one or several; each unit
    is tapped under the one that has it. text: the text itself, not a path. seed: of the random cases. hex, bin:
    also export `hex/`, `bin/` and headers. progress: called as progress(what, done, total). Each directory is
    replaced as a whole, or, when anything goes wrong, left as it was. Refused: unknown names, and folders that hold
    what refemu did not make, before anything is computed; two schemes that tap one unit in one configuration; and,
    before anything is written, `units` of which one has no case of these kinds.
    """
    selftest.check()
    model_cases.forget()
    chosen = [unit_names.find(name) for name in (unit_names.names() if units is None else units)]
    wanted = _kinds(kinds)
    targets = [
        (unit, config, Path(out) / f"{unit.name}-{config}")
        for unit in chosen
        for config in unit.configs
        if configs is None or config in configs
    ]
    for _, _, folder in targets:
        store.require_replaceable(folder)
    store.sweep(Path(out))
    schemes = [scheme] if scheme is None or isinstance(scheme, str) else list(scheme)
    runs = [model_cases.source(model, one, text, tokens) for one in schemes] if "model" in wanted else []
    taps = _tapped(runs, [unit.name for unit in chosen], progress)
    if units is not None:
        require_cases(chosen, targets, wanted, seed, taps, runs)
    written = list(_written(targets, wanted, seed, taps, hex, bin, progress))
    if not written:
        raise Refused(f"generate: no cases of kind {', '.join(wanted)} for {', '.join(unit.name for unit in chosen)}")
    return written


def _kinds(kinds: Sequence[str] | None) -> list[str]:
    for kind in kinds or ():
        require_choice(kind, KINDS, "generate", "kinds")
    return [kind for kind in KINDS if kinds is None or kind in kinds]


def _tapped(
    runs: Sequence[Source], names: Sequence[str], progress: Progress | None
) -> dict[tuple[str, str], tuple[Source, Sequence[Cases]]]:
    """The model cases of every unit and configuration, with the run that they come from."""
    found: dict[tuple[str, str], tuple[Source, Sequence[Cases]]] = {}
    for run in runs:
        for key, cases in model_cases.tapped(run, progress, names).items():
            if key in found:
                raise Refused(
                    f"generate: schemes {found[key][0].scheme} and {run.scheme} both tap {'-'.join(key)}; "
                    "give each a folder of its own"
                )
            found[key] = run, cases
    return found


def _written(
    targets: Sequence[tuple[Unit, str, Path]],
    kinds: Sequence[str],
    seed: int,
    taps: Mapping[tuple[str, str], tuple[Source, Sequence[Cases]]],
    hex: bool,
    bin: bool,
    progress: Progress | None,
) -> Iterator[Summary]:
    for done, (unit, config, folder) in enumerate(targets):
        if progress:
            progress("sets", done, len(targets))
        run, tapped = taps.get((unit.name, config), (None, ()))
        blocks, generator = collect(unit, config, kinds, seed, tapped)
        if blocks:
            source = model_cases.described(run) if run and tapped else {}
            yield _write(unit, config, folder, blocks, hex, bin, generator=generator, seed=seed, source=source)
    if progress:
        progress("sets", len(targets), len(targets))


def collect(
    unit: Unit, config: str, kinds: Iterable[str], seed: int, tapped: Sequence[Cases]
) -> tuple[list[Cases], dict[str, Any]]:
    """The cases of the wanted kinds in their order, and for the manifest what makes each kind that has any."""
    blocks: list[Cases] = []
    generator: dict[str, Any] = {}
    for kind in kinds:
        found = list(tapped) if kind == "model" else list(unit.cases(unit.configs[config], kind, seed))
        if found:
            function = model_cases.FUNCTION if kind == "model" else function_of(unit)
            generator[kind] = {"function": function, "seed": seed}
        blocks += found
    return blocks, generator


def function_of(unit: Unit) -> str:
    """What makes a unit's cases, as a manifest says it."""
    return f"{unit.cases.__module__}:{unit.cases.__qualname__}"


def random_cases(unit: Unit, config: str, seed: int, seeds: int) -> list[Cases]:
    """The random cases of consecutive seeds, cases of one reason in one block, integers in the dtypes of the ports."""
    values = int(
        integers.total(
            [
                array.size
                for block in unit.cases(unit.configs[config], "random", seed)
                for array in block.inputs.values()
            ]
        )
    )
    step, last = max(1, PART // max(1, values)), seed + seeds
    made = [
        _drawn(unit, unit.configs[config], range(first, min(first + step, last))) for first in range(seed, last, step)
    ]
    return [_merged(blocks) for blocks in zip(*made, strict=True)]


def _drawn(unit: Unit, config: Config, seeds: range) -> list[Cases]:
    """The random cases of a few seeds."""
    ports = {port.name: port for port in unit.ports(config).inputs}
    return [
        dataclasses.replace(
            block, inputs={name: fields.narrow(array, ports[name]) for name, array in block.inputs.items()}
        )
        for block in unit.cases(config, "random", seeds)
    ]


def _merged(blocks: Sequence[Cases]) -> Cases:
    if len({block.why for block in blocks}) > 1:
        raise Refused(f"random cases: reasons must not depend on the seed, got {blocks[0].why!r}, {blocks[-1].why!r}")
    names = blocks[0].inputs
    return dataclasses.replace(
        blocks[0], inputs={name: np.concatenate([block.inputs[name] for block in blocks]) for name in names}
    )


def _write(
    unit: Unit, config: str, folder: Path, blocks: Sequence[Cases], hex: bool, bin: bool, **facts: Any
) -> Summary:
    manifest, arrays = build.build(unit, config, blocks, **facts)
    files = sets.render(manifest, arrays, hex, bin)
    sealed = manifests.parse(files[sets.MANIFEST], str(folder))
    version = _kept_version(folder, sealed)
    if version != manifest["refemu_version"]:
        sealed = {**sealed, "refemu_version": version}
        files[sets.MANIFEST] = manifests.canonical(sealed)
    store.replace(folder, files)
    kinds = {kind: rows for kind in KINDS if (rows := _rows(sealed, kind))}
    return Summary(
        sealed["name"],
        unit.name,
        config,
        str(folder),
        sealed["rows"],
        _count(sealed),
        kinds,
        len(b"".join(files.values())),
        sealed["self_sha256"],
        version,
    )


def _kept_version(folder: Path, sealed: Mapping[str, Any]) -> str:
    """The release that last changed the set: the recorded one, if all else is equal."""
    path = folder / sets.MANIFEST
    if path.is_file():
        try:
            old = manifests.parse(path.read_bytes(), str(path))
        except Refused:
            return str(sealed["refemu_version"])
        if old["self_sha256"] == sealed["self_sha256"]:
            return str(old["refemu_version"])
    return str(sealed["refemu_version"])


def _rows(manifest: Mapping[str, Any], kind: str) -> int:
    rows = 0
    for entry in manifest["cases"]:
        rows += entry["cases"] * entry["rows"] if entry["kind"] == kind else 0
    return rows


def _count(manifest: Mapping[str, Any]) -> int:
    count = 0
    for entry in manifest["cases"]:
        count += entry["cases"]
    return count
